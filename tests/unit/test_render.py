"""Summaries as people see them: in a terminal, in a pull request, in a script."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from terradask._plan import Change, PlanSummary, summarise
from terradask._plan_values import AttributeChange
from terradask._render import MARKDOWN_LIMIT, to_json, to_markdown, to_text, value_text

DATA = Path(__file__).with_name("data")


def _summary(name: str) -> PlanSummary:
    document = json.loads((DATA / f"plan_{name}.json").read_text())
    return summarise(document, stack="network", plan_hash="ab" * 32)


def _large(resources: int, value: str = "x" * 100) -> PlanSummary:
    attribute = AttributeChange("description", None, value)
    changes = tuple(Change(f"aws_thing.number_{i}", "aws_thing", "create", None, (attribute,)) for i in range(resources))
    return PlanSummary("network", changes, (), (), "ab" * 32, "2026-11-20T05:30:19Z", "1.11.4", {})


def test_terminal_shows_dangers_changes_and_drift():
    lines = to_text(_summary("change")).splitlines()
    assert lines[0] == "network: 3 to update, 2 to replace, 1 to destroy"
    assert "! aws_vpc_security_group_ingress_rule.office lets 0.0.0.0/0 in at tcp 8786-8787 - the whole internet" in lines
    assert "  - aws_autoscaling_group.workers  (it is no longer in the configuration)" in lines
    assert '      name = "/terradask/default" -> "/terradask/other"  # forces replacement' in lines
    assert '      user_data = "(sensitive)" -> "(sensitive)"' in lines
    assert "changed beside Terraform since it last looked:" in lines
    assert "      retention_in_days = 30 -> 7" in lines
    assert lines[-1].startswith("plan abababababab of 2026-11-20")


def test_terminal_can_leave_values_of_creations_out():
    whole, short = to_text(_summary("create")), to_text(_summary("create"), details=False)
    assert "max_size = 5" in whole
    assert "max_size" not in short
    assert short.count("  + ") == 11


def test_terminal_shortens_nothing_by_its_width():
    assert to_text(_summary("change"), width=20).splitlines() == to_text(_summary("change"), width=400).splitlines()


def test_markdown_has_marker_verdict_table_and_hash():
    text = to_markdown(_summary("change"))
    assert text.startswith("<!-- terradask plan network -->\n## network: 3 to update, 2 to replace, 1 to destroy (needs a look)\n")
    assert "> [!CAUTION]" in text
    assert "| - destroy | <code>aws_autoscaling_group.workers</code> | it is no longer in the configuration |" in text
    assert "<details><summary>Values</summary>" in text
    assert "### Changed beside Terraform" in text
    assert "ab" * 32 in text
    assert "no changes" in to_markdown(_large(0))


@pytest.mark.parametrize(("resources", "limit"), [(2000, MARKDOWN_LIMIT), (50, 5000), (5, 700), (300, 65_536)])
def test_markdown_stays_under_the_limit_and_counts_what_is_missing(resources: int, limit: int):
    text = to_markdown(_large(resources), limit=limit)
    assert len(text) < limit
    assert "more resources" in text or text.count("description") == resources
    assert text.count("```") % 2 == 0
    assert text.count("<details>") == text.count("</details>")
    assert "terradask apply PLAN" in text


def test_markdown_can_not_be_broken_out_of():
    evil = "```\n</details> | <script> @everyone `x`"
    change = Change('aws_thing.x["|`@team"]', "aws_thing", "create", None, (AttributeChange("tags.a", None, evil),))
    summary = PlanSummary("network", (change,), (), (), "ab" * 32, "", "1.11.4", {})
    text = to_markdown(summary)
    assert text.count("```") == 2
    assert "<script>" not in text.replace(value_text(evil).replace("```", "``\u200b`"), "")
    row = next(line for line in text.splitlines() if line.startswith("| + create"))
    assert row.replace("\\|", "").count("|") == 4
    assert "@team" not in row


def test_json_is_the_dictionary():
    summary = _summary("change")
    assert json.loads(to_json(summary)) == summary.as_dict()


def test_values_fit_on_a_line():
    assert value_text(None) == "none"
    assert value_text("(known after apply)") == "(known after apply)"
    assert value_text("a\n\x1b[31mb") == '"a\\n\\u001b[31mb"'
    long = value_text("x" * 500)
    assert len(long) <= 120
    assert "…" in long
