"""Drift: what somebody did beside Terraform, and the noise that it is not."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from terradask._plans.summary import PlanSummary

from .plan_documents import plan_document, summary_of


@pytest.fixture(scope="module")
def changed() -> PlanSummary:
    return summary_of("change")


def test_drift_is_what_somebody_did_and_no_noise(changed: PlanSummary):
    assert len(plan_document("change")["resource_drift"]) > 2
    assert [change.address for change in changed.drift] == [
        "aws_cloudwatch_log_group.hosts",
        "aws_security_group.scheduler",
    ]
    assert [(a.path, a.before, a.after) for a in changed.drift[0].attributes] == [
        ("retention_in_days", 30, 7)
    ]
    ports = [a.after for a in changed.drift[1].attributes if a.path.endswith("from_port")]
    assert ports == [22], "the rules that stay are no part of it"


def test_drift_without_the_rule_by_hand_is_empty():
    document = plan_document("change")
    for entry in document["resource_drift"]:
        after = entry["change"]["after"]
        if entry["type"] == "aws_security_group":
            after["ingress"] = [rule for rule in after["ingress"] if rule["from_port"] != 22]
        if entry["type"] == "aws_cloudwatch_log_group":
            after["retention_in_days"] = 30
    assert summary_of(document).drift == ()


def test_inline_policy_that_nobody_declared_is_drift():
    document = plan_document("change")
    entry = next(e for e in document["resource_drift"] if e["type"] == "aws_iam_role")
    extra = {"name": "backdoor", "policy": '{"Statement": []}'}
    entry["change"]["after"]["inline_policy"].append(extra)
    assert "aws_iam_role.worker" in [change.address for change in summary_of(document).drift]


def test_deleted_beside_terraform_is_drift():
    document = plan_document("change")
    entry = copy.deepcopy(document["resource_drift"][0])
    entry["change"].update(actions=["delete"], after=None)
    document["resource_drift"] = [entry]
    assert [(c.address, c.action) for c in summary_of(document).drift] == [
        (entry["address"], "delete")
    ]


@pytest.fixture
def clean() -> dict[str, Any]:
    """The plan just after a first apply of the default network: nobody changed anything."""
    return plan_document("clean")


def test_after_a_clean_apply_every_entry_of_drift_is_noise(clean: dict[str, Any]):
    assert len(clean["resource_drift"]) == 19
    assert summary_of(clean).drift == ()


@pytest.mark.parametrize(
    ("address", "name", "value"),
    [
        ("aws_iam_role.worker", "max_session_duration", 43200),
        (
            "aws_iam_role.worker",
            "assume_role_policy",
            '{"Statement": [{"Effect": "Allow", "Principal": "*"}]}',
        ),
        ("aws_security_group.scheduler", "description", "mine"),
        ("aws_route_table.public", "tags", {"Name": "mine"}),
        ("aws_launch_template.worker-x86_64", "default_version", 9),
        ("aws_eip.nat-us-east-1a", "tags", {}),
        ("aws_nat_gateway.nat-us-east-1a", "subnet_id", "subnet-other"),
        ("aws_s3_object.workspace", "etag", "0123456789abcdef0123456789abcdef"),
        ("aws_s3_bucket.workspace", "force_destroy", False),
    ],
)
def test_among_the_noise_a_real_change_stays(
    clean: dict[str, Any], address: str, name: str, value: Any
):
    entry = next(e for e in clean["resource_drift"] if e["address"] == address)
    assert entry["change"]["after"][name] != value
    entry["change"]["after"][name] = value
    assert [change.address for change in summary_of(clean).drift] == [address]


@pytest.mark.parametrize(
    ("address", "name", "old"),
    [
        (
            "aws_route_table.private-us-east-1b",
            "route",
            {"cidr_block": "0.0.0.0/0", "nat_gateway_id": "nat-0of0before"},
        ),
        (
            "aws_security_group.scheduler",
            "ingress",
            {"protocol": "tcp", "from_port": 8786, "to_port": 8787, "cidr_blocks": ["10.0.0.0/8"]},
        ),
        (
            "aws_iam_role.worker",
            "inline_policy",
            {"name": "terradask", "policy": '{"Statement": []}'},
        ),
    ],
)
def test_what_the_last_apply_changed_in_another_resource_is_no_drift(
    clean: dict[str, Any], address: str, name: str, old: dict[str, Any]
):
    change = next(e for e in clean["resource_drift"] if e["address"] == address)["change"]
    change["before"][name] = [old]
    assert summary_of(clean).drift == ()
    change["after"][name] = [
        *change["after"][name],
        {**old, "name": "by hand", "cidr_blocks": ["11.0.0.0/8"], "cidr_block": "11.0.0.0/8"},
    ]
    assert [c.address for c in summary_of(clean).drift] == [address]


def test_an_address_without_its_gateway_is_drift(clean: dict[str, Any]):
    resources = clean["prior_state"]["values"]["root_module"]["resources"]
    resources[:] = [r for r in resources if r["type"] != "aws_nat_gateway"]
    assert "aws_eip.nat-us-east-1a" in [change.address for change in summary_of(clean).drift]
