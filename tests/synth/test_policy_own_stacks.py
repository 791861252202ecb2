"""Our own stacks keep every policy, and what settings allow is told."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from .golden_settings import BUDGETS, NETWORK_LIMITS, TASK_RIGHTS
from .planted_defects import SEEDS
from .policy_forms import FORMS, Document, found, rules_of

NETWORKS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "one NAT gateway per zone": {"nat": "per_zone"},
    "endpoints alone": {
        "nat": "none",
        "interface_endpoints": ["secretsmanager", "autoscaling", "ec2", "logs", "sts"],
    },
    "ingress": {
        "ingress": [{"cidr": "203.0.113.7/32"}, {"cidr": "2001:db8::/56", "ports": [8786]}]
    },
    "images of two regions": {
        "container_repositories": [
            "123456789012.dkr.ecr.us-east-1.amazonaws.com/dask",
            "210987654321.dkr.ecr.eu-west-1.amazonaws.com/team/dask",
        ]
    },
    "egress": {
        "dual_stack": True,
        "egress": [
            {"destination": "10.1.0.0/16", "ports": [5432, "8000-8100"], "reason": "database"},
            {"destination": "2001:db8::/56", "ports": [53], "protocol": "udp", "reason": "names"},
            {"destination": "sg-0123456789abcdefa", "ports": [5432], "reason": "database"},
            {"destination": "123456789012/sg-0123456789abcdefb", "ports": [1433], "reason": "peer"},
            {"destination": "pl-0123456789abcdef0", "ports": [22], "reason": "partners"},
            {"destination": "vpc", "ports": [2049], "reason": "files"},
        ],
    },
    "data": {"data_buckets": ["lake/raw", "results"]},
    "rights of tasks": TASK_RIGHTS,
    "private schedulers": {"public_schedulers": False},
    "flow logs, IPv6": {"flow_logs": True, "dual_stack": True},
    "Session Manager": {"session_manager": True},
    "Session Manager through endpoints": {
        "session_manager": True,
        "nat": "none",
        "public_schedulers": False,
        "interface_endpoints": [
            "secretsmanager",
            "autoscaling",
            "ec2",
            "logs",
            "sts",
            "ssm",
            "ssmmessages",
        ],
    },
    "a topic": {"notify_topic_arn": "arn:aws:sns:us-east-1:123456789012:dask"},
    "a topic of the network's own": {"notify_emails": ["ada@example.com"]},
    "a topic of the network's own with a customer's key": {
        "notify_emails": ["ada@example.com"],
        "kms_key_arn": (
            "arn:aws:kms:us-east-1:123456789012:key/0123abcd-01ab-23cd-45ef-0123456789ab"
        ),
    },
    "a topic with a customer's key": {
        "notify_topic_arn": "arn:aws:sns:us-east-1:123456789012:dask",
        "kms_key_arn": (
            "arn:aws:kms:us-east-1:123456789012:key/0123abcd-01ab-23cd-45ef-0123456789ab"
        ),
    },
    "budgets": {"budgets": BUDGETS},
    "a customer's key": {
        "kms_key_arn": "arn:aws:kms:us-east-1:123456789012:key/0123abcd-01ab-23cd-45ef-0123456789ab"
    },
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("variant", NETWORKS)
def test_our_own_network_has_no_findings(
    synth: Callable[..., Document], variant: str, form: str
) -> None:
    given = {"network": NETWORKS[variant]}
    ours = synth("network", **given)
    assert found(FORMS[form](ours), ours, workspace_rules=rules_of(**given)) == []


@pytest.mark.parametrize("form", FORMS)
def test_limits_have_no_findings(synth: Callable[..., Document], form: str) -> None:
    ours = synth("network", **NETWORK_LIMITS)
    assert found(FORMS[form](ours), ours) == []


@pytest.mark.parametrize("form", FORMS)
def test_a_cluster_with_prepared_hosts_has_no_findings(
    synth: Callable[..., Document], form: str
) -> None:
    ours = synth("etl", cluster={"standby": 2})
    assert found(FORMS[form](ours), ours) == []


@pytest.mark.parametrize("form", FORMS)
def test_our_own_cluster_has_no_findings(cluster: Document, form: str) -> None:
    assert found(FORMS[form](cluster), cluster) == []


@pytest.mark.parametrize("form", FORMS)
def test_public_workers_are_told_and_stop_nothing(
    synth: Callable[..., Document], form: str
) -> None:
    ours = synth("network", network={"public_workers": True})
    told = found(FORMS[form](ours), ours)

    assert [(finding.check, finding.severity, finding.address) for finding in told] == [
        ("P3", "warning", f"aws_launch_template.worker-{size}x86_64")
        for size in (
            "1000-500mibps-",
            "1000-",
            "250-500mibps-",
            "250-",
            "500-500mibps-",
            "500-",
            "500mibps-",
            "",
        )
    ]


@pytest.mark.parametrize("form", FORMS)
def test_the_whole_internet_is_told_where_a_setting_means_it(
    synth: Callable[..., Document], form: str
) -> None:
    rules = [{"cidr": "0.0.0.0/0"}, {"cidr": "::/0"}]
    ours = synth("network", network={"ingress": rules, "allow_ingress_from_anywhere": True})
    opened = FORMS[form](ours)

    told = found(opened, ours, open_to_anywhere=True)
    assert [(finding.check, finding.severity) for finding in told] == [("P2", "warning")] * 2
    assert {(finding.check, finding.severity) for finding in found(opened, ours)} == {
        ("P2", "error")
    }


@pytest.mark.parametrize("form", FORMS)
def test_a_setting_for_everybody_means_no_halves_and_no_ssh(network: Document, form: str) -> None:
    for check, defect in (("P2", "half of everybody"), ("P4", "SSH")):
        seeded = copy.deepcopy(network)
        SEEDS[check][defect](seeded)
        assert (check, "error") in {
            (finding.check, finding.severity)
            for finding in found(FORMS[form](seeded), network, open_to_anywhere=True)
        }


@pytest.mark.parametrize("form", FORMS)
def test_ssh_that_the_settings_ask_for_is_told_and_no_other_is_let_through(
    synth: Callable[..., Document], form: str
) -> None:
    opened = {
        "cluster": synth(
            "etl",
            workspace={"isolation": "cluster"},
            cluster={"allow_ingress_from": "203.0.113.7/32", "allow_ssh": True},
        ),
        "network": synth(
            "network",
            network={"ingress": [{"cidr": "203.0.113.7"}, {"cidr": "203.0.113.7", "ports": [22]}]},
        ),
    }
    for stack in opened.values():
        assert ssh_severities(FORMS[form](stack), stack) == ["warning"]
        for change in (
            {"cidr_ipv4": "203.0.113.8/32"},
            {"cidr_ipv4": "203.0.0.0/8"},
            {"from_port": 20},
            {"ip_protocol": "-1"},
            {"prefix_list_id": "pl-0123456789abcdef0"},
        ):
            changed = copy.deepcopy(stack)
            rules = changed["resource"]["aws_vpc_security_group_ingress_rule"].values()
            (rule,) = (each for each in rules if each.get("from_port") == 22)
            rule.update(change)
            assert "error" in ssh_severities(FORMS[form](changed), stack), change


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("cidr", ["203.0.0.0/15", "0.0.0.0/0", "2001:db8::/47"])
def test_ssh_for_more_than_one_site_stops_whatever_the_settings_ask(
    synth: Callable[..., Document], cidr: str, form: str
) -> None:
    opened = synth(
        "network",
        network={
            "ingress": [{"cidr": cidr, "ports": [22]}],
            "allow_ingress_from_anywhere": True,
        },
    )
    assert ssh_severities(FORMS[form](opened), opened, open_to_anywhere=True) == ["error"]


def ssh_severities(document: Document, ours: Document, **given: Any) -> list[str]:
    return [finding.severity for finding in found(document, ours, **given) if finding.check == "P4"]


@pytest.mark.parametrize("form", FORMS)
def test_a_topic_that_no_setting_names_is_told(synth: Callable[..., Document], form: str) -> None:
    topic = "arn:aws:sns:us-east-1:210987654321:dask"
    ours = synth("network", network={"notify_topic_arn": topic})
    document = FORMS[form](ours)

    told = found(document, ours, workspace_rules=rules_of(network={}))
    assert {
        (finding.check, finding.address, finding.severity)
        for finding in told
        if "launch_template" not in finding.address
    } >= {("P6", "aws_iam_role_policy.scheduler", "error")}
    assert {finding.check for finding in told if "launch_template" in finding.address} == {"P1"}
    # Without the settings it can't be told whose it is.
    unsure = found(document, ours)
    assert [(one.check, one.severity) for one in unsure] == [("P6", "warning")]
    assert "sns:Publish" in unsure[0].message
