"""A team's own rules, beside terradask: the page's rule finds in a report what it is for."""

from __future__ import annotations

import json
import re
from pathlib import Path

import regopy

from terradask._plans.policy.values import attribute_changes
from terradask._plans.summary import Change

from .report_data import of_changes

PAGE = Path(__file__).parents[2] / "docs/policy.md"


def template(name: str, size_gib: int) -> Change:
    after = {"block_device_mappings": [{"ebs": [{"volume_size": size_gib}]}]}
    address = f"aws_launch_template.{name}"
    attributes = attribute_changes({"before": None, "after": after})
    return Change(address, "aws_launch_template", "create", None, attributes)


def test_the_rule_of_the_page_reads_a_report() -> None:
    (rule,) = re.findall(r"```rego\n(.+?)```", PAGE.read_text(), flags=re.DOTALL)
    report = of_changes(template("worker", 300), template("scheduler", 50))
    conftest = regopy.Interpreter()
    conftest.set_input_term(json.dumps(report.as_dict()))
    conftest.add_module("policy/main.rego", rule)

    (denied,) = conftest.query("[msg | some msg in data.main.deny]").results[0].expressions

    assert denied == ["aws_launch_template.worker: volumes are at most 200 GiB"]
