"""Summaries as people see them in a terminal, and scripts in JSON."""

from __future__ import annotations

import json
from pathlib import Path

from terradask._plans.render_terminal import to_json, to_text, value_text
from terradask._plans.summary import PlanSummary, summarise

DATA = Path(__file__).with_name("data")


def _summary(name: str) -> PlanSummary:
    document = json.loads((DATA / f"plan_{name}.json").read_text())
    return summarise(document, stack="network", plan_hash="ab" * 32)


def test_terminal_shows_dangers_changes_and_drift():
    lines = to_text(_summary("change")).splitlines()
    assert lines[0] == "network: 3 to update, 2 to replace, 1 to destroy"
    at = lines.index(
        "! aws_vpc_security_group_ingress_rule.office admits more - the whole internet"
    )
    assert lines[at + 1 : at + 3] == [
        "    - tcp 8786-8787 from 203.0.113.0/24",
        "    + tcp 8786-8787 from 0.0.0.0/0",
    ]
    assert "  - aws_autoscaling_group.workers  (it is no longer in the configuration)" in lines
    assert '      name = "/terradask/default" -> "/terradask/other"  # forces replacement' in lines
    assert not [line for line in lines if "policy.Statement" in line or "user_data =" in line], (
        "what a document shows isn't said twice"
    )
    at = lines.index("      user_data, decoded:")
    assert lines[at + 2 : at + 5] == [
        "         #cloud-config",
        "        -# step 1",
        "        +# step 2",
    ]
    assert "changed outside Terraform since its last run:" in lines
    assert "      retention_in_days = 30 -> 7" in lines
    assert lines[-1].startswith("plan abababababab of 2026-11-20")


def test_terminal_can_leave_values_of_creations_out():
    whole, short = to_text(_summary("create")), to_text(_summary("create"), details=False)
    assert "max_size = 5" in whole
    assert "max_size" not in short
    assert short.count("  + ") == 11


def test_terminal_shortens_nothing_by_its_width():
    assert (
        to_text(_summary("change"), width=20).splitlines()
        == to_text(_summary("change"), width=400).splitlines()
    )


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
