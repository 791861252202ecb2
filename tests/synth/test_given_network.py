"""Networks of given resources, of a company's rules for roles and keys, and with the optional ways
out: as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from .test_network_stack import addresses, resource, statements

Document = dict[str, Any]
Synth = Callable[..., Document]

KEY = "arn:aws:kms:us-east-1:123456789012:key/0123abcd-01ab-23cd-45ef-0123456789ab"
BOUNDARY = "arn:aws:iam::123456789012:policy/boundary"
VPC = "vpc-0123456789abcdef0"
SUBNETS = {
    zone: {
        "scheduler": f"subnet-0123456789abcde{zone[-1]}0",
        "worker": f"subnet-0123456789abcde{zone[-1]}1",
    }
    for zone in ("us-east-1a", "us-east-1b")
}
GROUPS = {"scheduler": "sg-0123456789abcdef0", "worker": "sg-0123456789abcdef1"}
PROFILES = {"scheduler": "dask-scheduler", "worker": "dask-worker"}
OWN = ("aws_cloudwatch_log_group", "aws_launch_template", "aws_s3_")


def described(document: Document) -> str:
    text: str = resource(document, "aws_s3_object.workspace")["content"]
    return text


@pytest.fixture(scope="module")
def given(synth: Synth) -> Document:
    """The network's stack where VPC, security groups and instance profiles are given."""
    network = {
        "vpc_id": VPC,
        "subnets": SUBNETS,
        "security_groups": GROUPS,
        "instance_profiles": PROFILES,
        "public_schedulers": False,
        "ingress": [{"cidr": "203.0.113.7/32"}],
    }
    return synth("network", network=network)


def test_what_is_given_is_not_made(given: Document) -> None:
    assert [each for each in addresses(given) if not each.startswith((*OWN, "data."))] == []
    assert [each for each in addresses(given) if each.startswith("data.")] == [
        "data.aws_iam_instance_profile.scheduler",
        "data.aws_iam_instance_profile.worker",
        *(f"data.aws_subnet.{role}-{zone}" for role in ("scheduler", "worker") for zone in SUBNETS),
        "data.aws_vpc.this",
    ]


def test_clusters_learn_what_is_given(given: Document) -> None:
    text = described(given)

    for zone, subnets in SUBNETS.items():
        for role, subnet in subnets.items():
            assert f'"{role}_subnet_id" = "{subnet}"' in text
            assert f"data.aws_subnet.{role}-{zone}.cidr_block" in text
    assert f'"vpc_id" = "{VPC}"' in text
    assert '"given" = ["vpc", "security_groups", "instance_profiles"]' in text
    assert '"nat" = "given"' in text
    assert '"scheduler" = data.aws_iam_instance_profile.scheduler.role_arn' in text


def test_hosts_use_what_is_given(given: Document) -> None:
    for role, group in GROUPS.items():
        template = resource(given, f"aws_launch_template.{role}-x86_64")
        (card,) = template["network_interfaces"]
        assert card["security_groups"] == [group]
        assert card["associate_public_ip_address"] == "false"
        assert template["iam_instance_profile"] == {
            "arn": f"${{data.aws_iam_instance_profile.{role}.arn}}"
        }


def test_a_subnet_elsewhere_is_refused_by_terraform_too(given: Document) -> None:
    conditions = given["data"]["aws_subnet"]["worker-us-east-1b"]["lifecycle"]["postcondition"]

    assert [each["condition"] for each in conditions] == [
        f'${{self.vpc_id == "{VPC}"}}',
        '${self.availability_zone == "us-east-1b"}',
    ]


def test_our_groups_in_a_given_vpc_let_hosts_out_to_each_other_and_443(synth: Synth) -> None:
    document = synth("network", network={"vpc_id": VPC, "subnets": SUBNETS})

    assert resource(document, "aws_security_group.worker")["vpc_id"] == VPC
    rules = document["resource"]["aws_vpc_security_group_egress_rule"]
    peers = {
        ("scheduler", "worker"),
        ("worker", "scheduler"),
        ("worker", "worker"),
        ("scheduler", "https"),
        ("worker", "https"),
    }
    assert set(rules) == {f"{role}-to-{peer}" for role, peer in peers}
    assert [name for name, rule in rules.items() if "cidr_ipv4" in rule] == [
        "scheduler-to-https",
        "worker-to-https",
    ]


def test_private_schedulers_lie_where_workers_do(synth: Synth) -> None:
    document = synth("network", network={"public_schedulers": False})

    assert described(document).count('"scheduler_subnet_id" = aws_subnet.private-') == 2
    for template in document["resource"]["aws_launch_template"].values():
        assert template["network_interfaces"][0]["associate_public_ip_address"] == "false"


def test_roles_are_as_the_company_prescribes(synth: Synth) -> None:
    rules = {
        "role_path": "/platform/",
        "role_name_prefix": "acme-",
        "permissions_boundary": BOUNDARY,
        "flow_logs": True,
    }
    resources = synth("network", network=rules)["resource"]

    assert {role["name"] for role in resources["aws_iam_role"].values()} == {
        f"acme-terradask-default-{name}" for name in ("scheduler", "worker", "flow-logs")
    }
    assert {
        (role["path"], role["permissions_boundary"]) for role in resources["aws_iam_role"].values()
    } == {("/platform/", BOUNDARY)}
    assert {
        (each["path"], each["name"][:5]) for each in resources["aws_iam_instance_profile"].values()
    } == {("/platform/", "acme-")}


def test_a_customers_key_encrypts_everything_that_takes_one(synth: Synth) -> None:
    document = synth("network", network={"kms_key_arn": KEY, "flow_logs": True})
    resources = document["resource"]

    for template in resources["aws_launch_template"].values():
        assert [disk["ebs"]["kms_key_id"] for disk in template["block_device_mappings"]] == [KEY]
    assert {group["kms_key_id"] for group in resources["aws_cloudwatch_log_group"].values()} == {
        KEY
    }
    (rule,) = resources["aws_s3_bucket_server_side_encryption_configuration"]["workspace"]["rule"]
    assert rule["apply_server_side_encryption_by_default"] == {
        "kms_master_key_id": KEY,
        "sse_algorithm": "aws:kms",
    }
    assert rule["bucket_key_enabled"] is True
    assert statements(document, "worker")["UseKey"]["Resource"] == KEY
    assert f'"kms_key_arn" = "{KEY}"' in described(document)


def test_a_clusters_secret_uses_the_networks_key(cluster: Document) -> None:
    assert "kms_key_arn, null)" in resource(cluster, "aws_secretsmanager_secret.keys")["kms_key_id"]


def test_flow_logs_are_written_by_a_role_that_can_do_nothing_else(synth: Synth) -> None:
    before, document = (
        synth("network"),
        synth("network", network={"flow_logs": True, "log_retention_days": 7}),
    )

    assert set(addresses(document)) - set(addresses(before)) == {
        "aws_cloudwatch_log_group.flow-logs",
        "aws_flow_log.this",
        "aws_iam_role.flow-logs",
        "aws_iam_role_policy.flow-logs",
    }
    assert resource(document, "aws_cloudwatch_log_group.flow-logs")["retention_in_days"] == 7
    log = resource(document, "aws_flow_log.this")
    assert (log["traffic_type"], log["vpc_id"]) == ("ALL", "${aws_vpc.this.id}")
    trust = json.loads(resource(document, "aws_iam_role.flow-logs")["assume_role_policy"])[
        "Statement"
    ][0]
    assert trust["Principal"] == {"Service": "vpc-flow-logs.amazonaws.com"}
    assert trust["Condition"]["StringEquals"] == {"aws:SourceAccount": "123456789012"}
    (allowed,) = statements(document, "flow-logs").values()
    assert all("log-group:/terradask/default/flow-logs" in arn for arn in allowed["Resource"])


def test_dual_stack_gives_each_subnet_a_block_that_stays_its_own(synth: Synth) -> None:
    more = synth(
        "network",
        network={"dual_stack": True},
        zones={"us-east-1a": 1, "us-east-1b": 0, "us-east-1c": 2},
    )
    less = synth("network", network={"dual_stack": True}, zones={"us-east-1a": 1, "us-east-1b": 0})

    blocks = {
        name: subnet["ipv6_cidr_block"] for name, subnet in more["resource"]["aws_subnet"].items()
    }
    assert len(set(blocks.values())) == 6
    assert blocks["public-us-east-1a"] == "${cidrsubnet(aws_vpc.this.ipv6_cidr_block, 8, 3)}"
    assert {
        name: subnet["ipv6_cidr_block"] for name, subnet in less["resource"]["aws_subnet"].items()
    }.items() <= blocks.items()


def test_dual_stack_leads_private_subnets_out_alone(synth: Synth) -> None:
    document = synth("network", network={"dual_stack": True, "nat": "none"})

    routes = {
        name: route
        for name, route in document["resource"]["aws_route"].items()
        if "destination_ipv6_cidr_block" in route
    }
    assert {name: "egress_only_gateway_id" in route for name, route in routes.items()} == {
        "public-ipv6": False,
        "private-us-east-1a-ipv6": True,
        "private-us-east-1b-ipv6": True,
    }
    assert resource(document, "aws_vpc.this")["assign_generated_ipv6_cidr_block"] is True
    rule = resource(document, "aws_vpc_security_group_egress_rule.worker-to-https-ipv6")
    assert (rule["cidr_ipv6"], rule["from_port"], rule["to_port"]) == ("::/0", 443, 443)
