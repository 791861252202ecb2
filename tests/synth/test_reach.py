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


def test_ssh_stands_beside_the_networks_rules(synth: Callable[..., Document]) -> None:
    asked = {"allow_ssh": True, "allow_ssh_from": "203.0.113.7"}
    stack = synth("etl", workspace=ISOLATED, cluster=asked)
    assert rules(stack) == {("203.0.113.7/32", 22, 22)}
    scheduler = stack["resource"]["aws_launch_template"]["scheduler-x86_64"]
    assert ".security_groups.clients" in json.dumps(scheduler["network_interfaces"])


def test_sources_make_nothing_where_groups_are_shared(synth: Callable[..., Document]) -> None:
    stack = synth("etl", cluster={"allow_ingress_from": "203.0.113.7/32"})
    assert "aws_vpc_security_group_ingress_rule" not in stack["resource"]


@pytest.mark.parametrize(
    ("ports", "opened"),
    [({}, (8786, 8787)), ({"scheduler_port": 443}, (443, 443))],
)
def test_workers_reach_the_port_that_an_isolated_cluster_chose(
    synth: Callable[..., Document], ports: Document, opened: tuple[int, int]
) -> None:
    resources = synth("etl", workspace=ISOLATED, cluster=ports)["resource"]
    rule = resources["aws_vpc_security_group_ingress_rule"]["scheduler-from-worker"]
    assert (rule["from_port"], rule["to_port"]) == opened
    out = {
        rule["from_port"]
        for name, rule in resources["aws_vpc_security_group_egress_rule"].items()
        if name.endswith("-to-scheduler")
    }
    assert out == ({1024, 443} if opened == (443, 443) else {1024})


def test_shared_groups_open_to_workers_what_clients_reach_but_ssh(
    synth: Callable[..., Document],
) -> None:
    network = {"ingress": [{"cidr": "203.0.113.7/32", "ports": [22, 443, "8786-8787"]}]}
    made = synth("network", network=network)["resource"]
    rules = made["aws_vpc_security_group_ingress_rule"]
    assert {
        name: rule["from_port"]
        for name, rule in rules.items()
        if name.endswith("from-worker") and name.startswith("scheduler")
    } == {"scheduler-from-worker": 8786, "scheduler-443-from-worker": 443}
    shared = rules["scheduler-443-from-worker"]
    assert shared["referenced_security_group_id"].endswith("worker.id}")
    content = made["aws_s3_object"]["workspace"]["content"]
    assert '"scheduler_ports" = [[8786, 8787], [443, 443]]' in content
    isolated = synth("network", workspace=ISOLATED, network=network)["resource"]
    assert "scheduler-443-from-worker" not in isolated["aws_vpc_security_group_ingress_rule"]


def test_a_port_that_the_deployed_network_closes_to_workers_stops_the_plan(
    synth: Callable[..., Document],
) -> None:
    conditions = [
        json.dumps(synth("etl", workspace=workspace, cluster={"scheduler_port": port})["data"])
        for workspace, port in (({}, 443), ({}, 8786), (ISOLATED, 443))
    ]
    assert ["doesn't open port 443" in text for text in conditions] == [True, False, False]


def test_no_host_gets_a_key_for_ssh(synth: Callable[..., Document]) -> None:
    stack = synth(
        "etl", workspace=ISOLATED, cluster={"allow_ingress_from": "203.0.113.7", "allow_ssh": True}
    )
    assert "key_name" not in json.dumps(stack)
