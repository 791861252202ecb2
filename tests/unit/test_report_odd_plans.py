"""Reports on plans that are unlike most: only outputs, only destroys, imports, secrets, long
documents, what somebody opened by hand, a stack that can't be planned.
"""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

from terradask._plans.render_markdown import to_markdown
from terradask._plans.render_terminal import to_text
from terradask._plans.report import PlanReport, WorkspaceReport
from terradask._plans.summary import summarise

from .report_data import CONTEXT, of_changes, report, whole
from .review_plans import CLUSTER, plan_between, stack_of


def planned(*entries: dict[str, Any], **parts: Any) -> WorkspaceReport:
    """Return the report on a plan with these entries."""
    document = {**plan_between({}, {}), "resource_changes": list(entries), **parts}
    summary = summarise(document, stack="etl", plan_hash="ab" * 32)
    return WorkspaceReport(CONTEXT, (PlanReport(summary, (), None, CONTEXT),), stack="etl")


def entry(address: str, action: str, before: Any, after: Any, **marks: Any) -> dict[str, Any]:
    """Return one entry of a plan's ``resource_changes``."""
    kind, _, name = address.partition(".")
    change = {"actions": [action], "before": before, "after": after, "after_unknown": {}, **marks}
    return {"address": address, "type": kind, "name": name, "mode": "managed", "change": change}


def lines(shown: WorkspaceReport) -> list[str]:
    return to_markdown(shown).splitlines()


def test_changed_outputs_alone_are_shown_and_can_be_applied() -> None:
    url = {"actions": ["update"], "before": "a", "after": "b", "after_unknown": False}
    later = {"actions": ["update"], "before": "a", "after_unknown": True}
    same = {"actions": ["no-op"], "before": "a", "after": "a"}
    shown = planned(output_changes={"url": url, "later": later, "same": same})
    text = lines(shown)
    assert text[1] == "## etl: 2 outputs to update"
    at = text.index("**Outputs**")
    assert text[at + 2 : at + 4] == ["- `later` known after the apply", "- `url` `a` → `b`"]
    assert any("terradask apply DIR" in line for line in text)
    assert to_text(shown).splitlines()[0] == "etl: 2 outputs to update"
    assert to_text(shown).rstrip().endswith("\netl: 2 outputs to update")


def test_destroys_are_one_list() -> None:
    document = plan_between(stack_of(CLUSTER), {})
    summary = summarise(document, stack="etl", plan_hash="ab" * 32)
    shown = WorkspaceReport(CONTEXT, (PlanReport(summary, (), None, CONTEXT),), stack="etl")
    text = lines(shown)
    assert text[1] == "## etl: 4 to destroy (needs review)"
    cautions = [line for line in text if line.startswith("> - ")]
    # What holds results comes before what has only a descriptor.
    assert "aws_autoscaling_group.scheduler" in cautions[0]
    assert "aws_s3_object.descriptor" in cautions[-1]
    (addresses,) = [line for line in text if line.startswith("- destroy 4: ")]
    assert "`aws_autoscaling_group.{scheduler, workers}`" in addresses


def test_what_is_imported_has_its_reason_and_no_values() -> None:
    tags = {"tags": {"a": "1"}}
    here = entry("aws_s3_bucket.b", "no-op", tags, tags, importing={"id": "b"})
    changed = entry("aws_s3_bucket.c", "update", tags, {"tags": {"a": "2"}}, importing={"id": "c"})
    text = lines(planned(here, changed))
    assert "## etl: 1 to update, 1 to import" in text
    assert "- import `aws_s3_bucket.b` (it exists, and is imported into the state)" in text
    assert any(line.endswith("into the state): `tags.a` `1` → `2`") for line in text)


def test_a_secret_is_named_once() -> None:
    sides = ({"password": "hunter22", "n": 1}, {"password": "hunter33", "n": 2})
    marks = {"before_sensitive": {"password": True}, "after_sensitive": {"password": True}}
    shown = planned(entry("aws_thing.s", "update", *sides, **marks))
    assert "  - `password` (sensitive)" in lines(shown)
    assert "      password = (sensitive)" in to_text(shown).splitlines()
    assert "hunter" not in to_markdown(shown)


def test_a_long_document_is_a_line_that_counts_its_lines() -> None:
    script = [f"echo {number} of the script" for number in range(200)]
    changed = [*script[:100], "echo more", *script[101:150], *script[151:]]
    user_data = [
        {"user_data": base64.b64encode("\n".join(each).encode()).decode()}
        for each in (script, changed)
    ]
    text = lines(planned(entry("aws_launch_template.w", "update", *user_data)))
    (line,) = [line for line in text if line.startswith("- update `aws_launch_template.w`")]
    assert ": `user_data` 1 line added, 2 removed (document `" in line
    assert line.endswith("` below)")
    # The difference, folded, with what is around it.
    assert "+echo more" in text
    assert len(text) < 60


def test_equal_lists_and_nested_values_are_one_line() -> None:
    before = {"l": ["a", "b"], "n": 1, "m": {"k": [{"p": 1}, {"p": 2}]}}
    after = {"l": ["a", "c"], "n": 2.5, "m": {"k": [{"p": 3}, {"p": 2}]}}
    text = lines(planned(*(entry(f"aws_thing.n{i}", "update", before, after) for i in range(4))))
    (line,) = [line for line in text if line.startswith("- **4 ")]
    assert line == (
        "- **4 `aws_thing` resources**: `l` `a, b` → `a, c`; `m.k[*].p` `1` → `3`; `n` `1` → `2.5`"
    )


def test_new_values_are_not_compared_with_nothing_and_stacks_are_named_once() -> None:
    types = [{"override": [{"instance_type": f"m{i}i.xlarge"} for i in (5, 6)]}]
    tag = {"key": "team", "value": "a", "propagate_at_launch": True}
    group = {"types": types, "tag": [tag], "max_size": 2}
    made = [
        planned(
            entry("aws_autoscaling_group.a", "create", None, group),
            entry("aws_autoscaling_group.b", "create", None, {**group, "max_size": 3}),
        ).plans[0]
        for _ in range(2)
    ]
    other = replace(made[1], summary=replace(made[1].summary, stack="ml"))
    text = lines(WorkspaceReport(CONTEXT, (made[0], other)))
    assert '    types[0].override[*].instance_type = ["m5i.xlarge", "m6i.xlarge"]' in text
    assert '    tags.team = "a"' in text
    # Instances get every new tag of their group.
    assert "propagate" not in "\n".join(text)
    assert text.count("**etl, ml**") == 1


def test_what_somebody_opened_by_hand_is_a_caution_with_the_command_that_closes_it() -> None:
    shown = whole(report())
    (caution,) = [line for line in lines(shown) if "changed outside Terraform: " in line]
    assert caution.startswith(
        "> - `aws_security_group.scheduler` changed outside Terraform: lets 198.51.100.0/24 in at "
        "tcp 22; no apply takes it back, but this does: `aws ec2 revoke-security-group-ingress "
    )
    assert "! aws_security_group.scheduler changed outside Terraform: lets " in to_text(shown)


def test_the_heading_counts_stacks_that_cant_be_planned_and_a_long_reason_is_marked_as_cut() -> (
    None
):
    shown = whole(of_changes(), stack=None, failed={"ml": "no type " * 100, "gpu": "no"})
    text = lines(shown)
    assert text[1] == "## workspace default: 2 stacks could not be planned"
    (ml,) = [line for line in text if line.startswith("- **ml**")]
    assert ml.endswith("…")
    assert len(ml) < 600
