"""Drift, written for people: a line for each value, and nothing that breaks out of its place."""

from __future__ import annotations

from terradask._plans.policy.values import AttributeChange
from terradask._plans.render_drift import drift_document, drift_markdown, drift_text
from terradask._plans.summary import Change, PlanSummary, summarise


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


def test_text_has_a_line_for_each_value_and_the_next_command() -> None:
    assert drift_text([summary("network", CHANGED, GONE), summary("etl")]).splitlines() == [
        "network: 2 resources changed outside Terraform",
        "  ~ aws_s3_bucket.b",
        '      tags.team = "a" -> "b ```` c"',
        "  - aws_subnet.s is gone",
        "",
        "next: terradask plan network, which shows what terradask apply network would set back",
    ]


def test_markdown_names_stacks_with_drift_and_can_not_be_broken_out_of() -> None:
    text = drift_markdown([summary("network", CHANGED), summary("etl")])

    assert text.startswith(
        "<!-- terradask drift -->\n## 1 resource changed outside Terraform\n\n"
        "**network**: 1 resource\n"
    )
    assert "etl" not in text
    assert text.count("```") == 2
    assert "<code>b &#96;&#96;&#96;&#96; c</code>" in text


def test_no_drift_says_what_was_looked_at() -> None:
    text = drift_markdown([summary("network"), summary("etl")])

    assert "No drift" in text
    assert "network, etl" in text


def test_ssh_that_somebody_opened_comes_first_with_the_command_that_closes_it() -> None:
    group = {"id": "sg-1", "ingress": [], "name": "scheduler"}
    rule = {"protocol": "tcp", "from_port": 22, "to_port": 22, "cidr_blocks": ["0.0.0.0/0"]}
    logs = {"before": {"retention_in_days": 30}, "after": {"retention_in_days": 7}}
    opened = {"before": group, "after": {**group, "ingress": [rule]}}
    document = {
        "resource_changes": [],
        "resource_drift": [
            {
                "address": f"{kind}.x",
                "type": kind,
                "mode": "managed",
                "change": {**change, "actions": ["update"]},
            }
            for kind, change in (
                ("aws_cloudwatch_log_group", logs),
                ("aws_security_group", opened),
            )
        ],
    }
    found = summarise(document, stack="network", plan_hash="")
    (danger,) = found.drift_dangers
    revoke = (
        "aws ec2 revoke-security-group-ingress --group-id sg-1 --ip-permissions "
        "'IpProtocol=tcp,FromPort=22,ToPort=22,IpRanges=[{CidrIp=0.0.0.0/0}]'"
    )
    assert danger.command == revoke
    lines = drift_text([found]).splitlines()
    assert lines[:3] == [
        "network: 2 resources changed outside Terraform (needs review)",
        "! aws_security_group.x lets 0.0.0.0/0 in at tcp 22 - the whole internet",
        f"    {revoke}",
    ]
    assert lines[-2] == f"next: {revoke}"
    text = drift_markdown([found])
    assert text.index("[!CAUTION]\n> - **network** `aws_security_group.x`") < text.index(
        "retention"
    )
    (entry,) = drift_document([found])
    assert entry["next"][0] == revoke
    assert entry["dangers"][0]["kind"] == "ingress"


def test_what_somebody_deleted_is_weighed_by_what_is_lost() -> None:
    gone = {"before": {"id": "vpc-1"}, "after": None, "actions": ["delete"]}
    entry = {"address": "aws_vpc.x", "type": "aws_vpc", "mode": "managed", "change": gone}
    found = summarise(
        {"resource_changes": [], "resource_drift": [entry]}, stack="network", plan_hash=""
    )
    assert [danger.text for danger in found.drift_dangers] == [
        "is gone: every cluster of the workspace is cut off"
    ]
