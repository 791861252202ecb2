"""Drift, written for people: a line for each value, and nothing that breaks out of its place."""

from __future__ import annotations

from terradask._plans.policy.values import AttributeChange
from terradask._plans.render_markdown import drift_markdown
from terradask._plans.render_terminal import drift_text
from terradask._plans.summary import Change, PlanSummary


def summary(stack: str, *drift: Change) -> PlanSummary:
    return PlanSummary(
        stack=stack,
        changes=(),
        drift=drift,
        dangers=(),
        plan_hash="0" * 64,
        created_at="2026-11-20T05:00:00Z",
        terraform_version="1.11.4",
    )


CHANGED = Change(
    "aws_s3_bucket.b",
    "aws_s3_bucket",
    "update",
    None,
    (AttributeChange("tags.team", "a", "b ```` c"),),
)
GONE = Change("aws_subnet.s", "aws_subnet", "delete")


def test_text_has_a_line_for_each_value() -> None:
    assert drift_text(summary("network", CHANGED, GONE)).splitlines() == [
        "network: 2 resources changed outside Terraform",
        "  ~ aws_s3_bucket.b",
        '      tags.team = "a" -> "b ```` c"',
        "  - aws_subnet.s is gone",
    ]


def test_markdown_names_stacks_with_drift_and_can_not_be_broken_out_of() -> None:
    text = drift_markdown([summary("network", CHANGED), summary("etl")])

    assert text.startswith("<!-- terradask drift -->\n## Changed outside Terraform\n")
    assert "### `network`: 1 resource\n" in text
    assert "etl" not in text
    assert text.count("````") == 2


def test_no_drift_says_what_was_looked_at() -> None:
    text = drift_markdown([summary("network"), summary("etl")])

    assert "No drift" in text
    assert "`network`, `etl`" in text
