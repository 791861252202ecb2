"""A team's own rules, through regopy."""

from __future__ import annotations

import base64
import json
import re
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from terradask._policy.rego import rego_findings
from terradask.errors import RegoMissing, RuleError
from terradask.policy import PolicyFinding, evaluate
from terradask_stacks.settings import PolicySettings

from .policy_plans import whole

DOCS = Path(__file__).parents[2] / "docs/policy.md"

PLAN: dict[str, Any] = {
    "format_version": "1.2",
    "resource_changes": [
        {
            "address": 'aws_vpc.this["a"]',
            "mode": "managed",
            "type": "aws_vpc",
            "name": "this",
            "change": {
                "actions": ["create"],
                "after": {
                    "cidr_block": "10.0.0.0/16",
                    "policy": json.dumps({"Statement": [{"Action": "s3:*"}]}, indent=1),
                },
                "after_unknown": {},
                "after_sensitive": {},
            },
        }
    ],
}


def rules(folder: Path, text: str, name: str = "main.rego") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return folder


def told(folder: Path, text: str, plan: dict[str, Any] = PLAN) -> list[PolicyFinding]:
    return list(rego_findings(plan, rules(folder, text)))


def test_deny_is_an_error_and_warn_a_warning(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        (
            'package main\nimport rego.v1\ndeny contains "no"\nwarn contains "careful"\nviolation '
            'contains "never"\n'
        ),
    )

    assert [(finding.check, finding.severity, finding.message) for finding in found] == [
        ("main.deny", "error", "no"),
        ("main.violation", "error", "never"),
        ("main.warn", "warning", "careful"),
    ]


def test_messages_may_be_objects_with_an_address_and_an_id(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        """package main
import rego.v1

deny contains {
    "msg": sprintf("%s is too large", [change.address]),
    "address": change.address, "id": "size", "advice": "use a /20",
} if {
    some change in input.resource_changes
    endswith(change.change.after.cidr_block, "/16")
}
""",
    )

    address = 'aws_vpc.this["a"]'
    assert found == [
        PolicyFinding("main.size", "error", address, f"{address} is too large", "use a /20")
    ]


@pytest.mark.parametrize(
    "body",
    [
        'input.resource_changes[0].address == "aws_vpc.this[\\"a\\"]"',
        'input.resource_changes[0].address == `aws_vpc.this["a"]`',
        'startswith(input.resource_changes[0].address, "aws_vpc.this[\\"")',
        (
            "some s in json.unmarshal(input.resource_changes[0].change.after.policy).Statement\n "
            's.Action == "s3:*"'
        ),
        "not input.resource_changes[0].change.after.tags",
        "count(input.resource_changes) == 1",
    ],
)
def test_rules_see_the_plan_as_it_is(tmp_path: Path, body: str) -> None:
    assert [
        finding.message
        for finding in told(
            tmp_path, f'package main\nimport rego.v1\ndeny contains "seen" if {{\n {body}\n}}\n'
        )
    ] == ["seen"]


@pytest.mark.parametrize(
    "text",
    ['say "no"', "tab\there", "back\\\\slash", "line\nbreak", "ünïcode ✓", '{"json": "[1]"}'],
)
def test_messages_arrive_as_they_are(tmp_path: Path, text: str) -> None:
    plan = {**PLAN, "variables": {"text": {"value": text}}}

    found = told(
        tmp_path, "package main\nimport rego.v1\ndeny contains input.variables.text.value\n", plan
    )

    assert [finding.message for finding in found] == [text]


@pytest.mark.parametrize(
    "rule",
    [
        'deny contains msg if { msg := "no" }',
        'deny[msg] { msg := "no" }',
        'deny := "no"',
        'deny := {"msg": "no"}',
        'deny := ["no"] if { true }',
        'deny_vpc contains "no"',
        'deny contains {"msg": "no", "details": {"a": 1}}',
    ],
)
def test_every_way_of_writing_a_rule_is_heard(tmp_path: Path, rule: str) -> None:
    assert [finding.message for finding in told(tmp_path, f"package main\n{rule}\n")] == ["no"]


def test_a_rule_that_only_holds_is_heard(tmp_path: Path) -> None:
    assert [
        finding.message
        for finding in told(tmp_path, "package main\nimport rego.v1\ndeny if { 1 == 1 }\n")
    ] == ["deny holds"]


def test_rules_may_stand_in_several_packages_and_folders_and_use_each_other(tmp_path: Path) -> None:
    rules(
        tmp_path,
        'package lib.sizes\nimport rego.v1\nlarge(block) if endswith(block, "/16")\n',
        "lib/sizes.rego",
    )
    rules(
        tmp_path,
        (
            'package team.network\nimport rego.v1\nimport data.lib.sizes\nwarn contains "large" if '
            'sizes.large("10.0.0.0/16")\n'
        ),
        "n.rego",
    )
    rules(tmp_path, 'package main_test\nimport rego.v1\ndeny contains "a test"\n', "main_test.rego")
    found = told(tmp_path, 'package main\nimport rego.v1\ndeny contains "no"\n# package other\n')

    assert [finding.check for finding in found] == ["main.deny", "team.network.warn"]


def test_a_plan_that_keeps_the_rules_has_no_findings(tmp_path: Path) -> None:
    assert (
        told(tmp_path, 'package main\nimport rego.v1\ndeny contains "no" if input.nothing\n') == []
    )


def test_the_rule_in_the_documentation_works(tmp_path: Path) -> None:
    (text,) = re.findall(r"```rego\n(.+?)```", DOCS.read_text(), flags=re.DOTALL)
    plan = json.loads(json.dumps(PLAN))
    plan["resource_changes"] = [
        {
            "address": "aws_launch_template.worker",
            "type": "aws_launch_template",
            "change": {"after": {"block_device_mappings": disks}},
        }
        for disks in ([{"ebs": [{"volume_size": 100}]}], [{"ebs": [{"volume_size": 300}]}])
    ]

    assert told(tmp_path, text, plan) == [
        PolicyFinding(
            "main.volume-size", "error", "aws_launch_template.worker", "volumes are at most 200 GiB"
        )
    ]


# ---- what can't be read --------------------------------------------------------------------------


def test_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match="doesn't exist") as error:
        rego_findings(PLAN, tmp_path / "none")
    assert str(tmp_path / "none") in str(error.value)
    assert error.value.exit_code == 2


@pytest.mark.parametrize("text", [None, "package main\nallow := true\n"])
def test_a_folder_without_rules(tmp_path: Path, text: str | None) -> None:
    if text:
        rules(tmp_path, text)
    with pytest.raises(RuleError, match=r"no Rego rules|no rule in the folder"):
        rego_findings(PLAN, tmp_path)


def test_a_missing_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "regopy", None)
    with pytest.raises(RegoMissing, match=r"terradask\[rego\]"):
        told(tmp_path, "package main\ndeny := false\n")


@pytest.mark.parametrize(
    ("text", "said", "line"),
    [
        ("package main\nimport rego.v1\n\ndeny contains msg if { msg := \n", "unclosed", 4),
        (
            "package main\nimport rego.v1\n\n# ü\ndeny contains 1 if {\n x = = 2\n}\n",
            "assignment",
            6,
        ),
        ("deny contains 1\n", "no package", None),
        ("package main\nimport rego.v1\ndeny contains opa.runtime().env.HOME\n", "environment", 3),
        (
            "package main\nimport rego.v1\ndeny contains msg if { msg := nothing_like_it(1) }\n",
            "nothing_like_it",
            None,
        ),
        (
            "package main\nimport rego.v1\ndeny contains msg if { some msg in data.main.deny }\n",
            "[Rr]ecursion",
            None,
        ),
        ('package main\nimport rego.v1\ndeny := "a"\ndeny := "b"\n', "contradict|evaluated", None),
    ],
)
def test_a_rule_that_cant_be_read_is_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], text: str, said: str, line: int | None
) -> None:
    secret = {**PLAN, "variables": {"token": {"value": "correct-horse"}}}
    with pytest.raises(RuleError, match=said) as error:
        told(tmp_path, text, secret)

    assert error.value.line == line
    assert line is None or error.value.file.endswith("main.rego")
    assert "correct-horse" not in str(error.value)
    assert "".join(capfd.readouterr()) == ""


# ---- secrets -------------------------------------------------------------------------------------


def test_a_plans_secrets_never_reach_a_message(tmp_path: Path) -> None:
    user_data = base64.b64encode(b"#!/bin/sh\nexport DB_PASSWORD=battery-staple\n").decode()
    plan = json.loads(json.dumps(PLAN))
    change = plan["resource_changes"][0]["change"]
    change["after"] |= {
        "note": "correct-horse",
        "password": "tr0ub4dor",
        "user_data": user_data,
        "tags": {"api_key": "s3cr"},
    }
    change["after_sensitive"] = {"note": True}
    rules(
        tmp_path,
        """package main
import rego.v1

deny contains {
    "msg": sprintf("%v and %v", [value, base64.encode(value)]),
    "address": value, "advice": value,
} if {
    some value in input.resource_changes[0].change.after
    is_string(value)
}

deny contains base64.decode(input.resource_changes[0].change.after.user_data)
deny contains sprintf("tag %s", [input.resource_changes[0].change.after.tags.api_key])
deny contains sprintf("%v", [input.resource_changes[0].change.after])
""",
    )

    found = evaluate(
        whole(plan),
        settings=PolicySettings(rego_folder="."),
        today=date(2026, 11, 20),
        root=tmp_path,
    )

    text = json.dumps([finding.as_dict() for finding in found])
    secrets = ("correct-horse", "tr0ub4dor", "battery-staple", user_data)
    encoded = [base64.b64encode(secret.encode()).decode() for secret in secrets]
    assert [secret for secret in (*secrets, *encoded, "s3cr") if secret in text] == []
    assert "10.0.0.0/16" in text
    assert "tag (sensitive)" in text
