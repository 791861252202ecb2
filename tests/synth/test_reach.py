"""Ways to the scheduler as they stand in stacks: rights for Session Manager, rules of a cluster's
own, its ports.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

Document = dict[str, Any]

CHANNELS = [
    "ssm:UpdateInstanceInformation",
    "ssmmessages:CreateControlChannel",
    "ssmmessages:CreateDataChannel",
    "ssmmessages:OpenControlChannel",
    "ssmmessages:OpenDataChannel",
]
ISOLATED = {"isolation": "cluster"}


def policies(network: Document) -> dict[str, list[Document]]:
    found = network["resource"]["aws_iam_role_policy"]
    return {role: json.loads(policy["policy"])["Statement"] for role, policy in found.items()}


def test_session_manager_is_schedulers_right_and_nobodys_by_default(
    synth: Callable[..., Document],
) -> None:
    before, after = (
        policies(synth("network", network={"session_manager": on})) for on in (False, True)
    )
    assert "ssm" not in json.dumps(before)
    assert after["worker"] == before["worker"]
    (added,) = [
        statement for statement in after["scheduler"] if statement not in before["scheduler"]
    ]
    assert added == {
        "Sid": "ServeSessions",
        "Effect": "Allow",
        "Action": CHANNELS,
        "Resource": "*",
        "Condition": {"StringEquals": {"aws:RequestedRegion": "us-east-1"}},
    }


def test_clusters_learn_of_it(synth: Callable[..., Document]) -> None:
    content = synth("network", network={"session_manager": True})["resource"]["aws_s3_object"][
        "workspace"
    ]["content"]
    assert '"session_manager" = true' in content
    assert '"allow_ingress_from_anywhere" = false' in content
    isolating = synth("network", workspace=ISOLATED, network={"session_manager": True})["resource"]
    content = isolating["aws_s3_object"]["workspace"]["content"]
    assert content.index('"scheduler_access" = [{"Sid" = "ServeSessions"') > 0
    # A cluster's own role may do no more than the boundary.
    assert all(action in isolating["aws_iam_policy"]["boundary"]["policy"] for action in CHANNELS)


def test_its_endpoints_are_made_like_any(synth: Callable[..., Document]) -> None:
    services = ["secretsmanager", "autoscaling", "ec2", "logs", "sts", "ssm", "ssmmessages"]
    made = synth(
        "network",
        network={
            "nat": "none",
            "public_schedulers": False,
            "session_manager": True,
            "interface_endpoints": services,
        },
    )
    assert set(services) <= made["resource"]["aws_vpc_endpoint"].keys()


def rules(stack: Document) -> set[tuple[str, int, int]]:
    found = stack["resource"]["aws_vpc_security_group_ingress_rule"].values()
    return {
        (rule["cidr_ipv4"], rule["from_port"], rule["to_port"])
        for rule in found
        if "cidr_ipv4" in rule
    }


@pytest.mark.parametrize(
    ("cluster", "opened"),
    [
        ({}, set()),
        ({"allow_ingress_from": []}, set()),
        ({"allow_ingress_from": "203.0.113.7"}, {("203.0.113.7/32", 8786, 8787)}),
        (
            {
                "allow_ingress_from": ["203.0.113.0/24"],
                "allow_ssh": True,
                "allow_ssh_from": ["203.0.113.7/32"],
            },
            {("203.0.113.0/24", 8786, 8787), ("203.0.113.7/32", 22, 22)},
        ),
    ],
)
def test_sources_stand_in_an_isolated_clusters_own_group(
    synth: Callable[..., Document], cluster: Document, opened: set[tuple[str, int, int]]
) -> None:
    assert rules(synth("etl", workspace=ISOLATED, cluster=cluster)) == opened


def test_sources_make_nothing_where_groups_are_shared(synth: Callable[..., Document]) -> None:
    stack = synth("etl", cluster={"allow_ingress_from": "203.0.113.7/32"})
    assert "aws_vpc_security_group_ingress_rule" not in stack["resource"]


@pytest.mark.parametrize(
    ("ports", "opened"),
    [({}, (8786, 8787)), ({"scheduler_port": 9000, "dashboard_port": 9001}, (9000, 9000))],
)
def test_workers_reach_the_port_that_an_isolated_cluster_chose(
    synth: Callable[..., Document], ports: Document, opened: tuple[int, int]
) -> None:
    rule = synth("etl", workspace=ISOLATED, cluster=ports)["resource"][
        "aws_vpc_security_group_ingress_rule"
    ]["scheduler-from-worker"]
    assert (rule["from_port"], rule["to_port"]) == opened


def test_no_host_gets_a_key_for_ssh(synth: Callable[..., Document]) -> None:
    stack = synth(
        "etl", workspace=ISOLATED, cluster={"allow_ingress_from": "203.0.113.7", "allow_ssh": True}
    )
    assert "key_name" not in json.dumps(stack)
