"""Mounts in the network's stack: user data, rules and rights, and policy on other ones."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from .policy_forms import FORMS, Document, found, rules_of

EFS = "fs-0123456789abcdef0"
MOUNTS = [
    {"path": "/data/lake", "bucket": "lake", "prefix": "2026"},
    {"path": "/data/home", "efs": EFS},
    {"path": "/data/fast", "fsx_lustre": EFS, "mount_name": "fsx", "access": "write"},
]
GIVEN = {"network": {"mounts": MOUNTS}}
RULES = rules_of(**GIVEN)


def text_of(stack: Document) -> str:
    template = next(iter(stack["resource"]["aws_launch_template"].values()))
    return base64.b64decode(template["user_data"]).decode()


def mounts_in(stack: Document) -> list[dict[str, str]]:
    line = next(line for line in text_of(stack).splitlines() if '"format": 1' in line)
    return list(json.loads(line)["mounts"])


def test_hosts_get_the_mounts_of_the_settings(synth: Callable[..., Document]) -> None:
    stack = synth("network", **GIVEN)
    assert [mount["path"] for mount in mounts_in(stack)] == [
        "/data/fast",
        "/data/home",
        "/data/lake",
    ]
    rules = stack["resource"]["aws_vpc_security_group_egress_rule"].values()
    assert {
        (rule["from_port"], rule["to_port"], rule["cidr_ipv4"], rule["description"])
        for rule in rules
        if rule.get("description", "").startswith("mount at ")
    } == {
        (2049, 2049, "10.64.0.0/16", "mount at /data/home"),
        (988, 988, "10.64.0.0/16", "mount at /data/fast"),
        (1018, 1023, "10.64.0.0/16", "mount at /data/fast"),
    }
    for policy in stack["resource"]["aws_iam_role_policy"].values():
        rights = {one["Sid"]: one for one in json.loads(policy["policy"])["Statement"]}
        assert rights["ReadData"]["Resource"] == "arn:aws:s3:::lake/2026/*"
        assert rights[f"TaskMountFs{EFS[3:]}"]["Action"] == "elasticfilesystem:ClientMount"
        assert "UseData" not in rights


@pytest.mark.parametrize("form", FORMS)
def test_policy_takes_the_mounts_of_the_settings(synth: Callable[..., Document], form: str) -> None:
    ours = synth("network", **GIVEN)
    assert found(FORMS[form](ours), ours, workspace_rules=RULES) == []


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "planted",
    [
        [{**MOUNTS[0], "bucket": "other"}, *MOUNTS[1:]],
        [{**MOUNTS[0], "access": "write"}, *MOUNTS[1:]],
        [*MOUNTS, {"path": "/data/more", "bucket": "other"}],
        [{**MOUNTS[0], "path": "/data/lakes"}, *MOUNTS[1:]],
        [],
    ],
    ids=["another bucket", "writable", "one more", "another path", "none"],
)
def test_other_mounts_than_the_settings_are_found(
    synth: Callable[..., Document], form: str, planted: list[dict[str, Any]]
) -> None:
    ours = synth("network", **GIVEN)
    theirs = synth("network", network={"mounts": planted})
    stack = copy.deepcopy(ours)
    for name, template in stack["resource"]["aws_launch_template"].items():
        template["user_data"] = theirs["resource"]["aws_launch_template"][name]["user_data"]
    messages = {
        each.message
        for each in found(FORMS[form](stack), ours, workspace_rules=RULES)
        if each.check == "P1"
    }
    assert "user_data isn't terradask's for this workspace" in messages
