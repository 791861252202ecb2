"""Rules on given resources: nothing to find where all is well, and one finding for each thing that
isn't.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from terradask._network.given_firewall import firewall_findings
from terradask._network.given_identity import identity_findings
from terradask._network.given_network import LikelyFinding, network_findings
from terradask_stacks.errors import Finding

from .given_facts import (
    ARM_IMAGE,
    BOUNDARY,
    ENDPOINTS,
    IMAGE,
    KEY,
    PRIVATE,
    PUBLIC,
    SCHEDULER,
    SERVICES,
    VPC,
    WORKER,
    endpoint,
    facts,
    healthy,
    rule,
    settings,
    table,
)

Break = Callable[[dict[str, Any]], Any]


def findings(described: dict[str, Any], **network: Any) -> list[Finding]:
    given, found = settings(**network), facts(**described)
    return [
        *network_findings(given, found),
        *firewall_findings(given, found),
        *identity_findings(given, found),
    ]


def test_nothing_is_wrong_where_all_is_well() -> None:
    assert findings(healthy()) == []


def test_what_nobody_may_look_at_is_not_held_against_it() -> None:
    assert findings({}) == []


def _without_internet(described: dict[str, Any], *services: str) -> None:
    described["route_tables"][1] = table("rtb-main", None, Main=True)
    described["endpoints"] += [endpoint(service) for service in services]


CERTAIN: dict[str, tuple[str, str, Break]] = {
    "no VPC": ("network.vpc_id", "no such VPC", lambda d: d["vpcs"].clear()),
    "our own VPC": (
        "network.vpc_id",
        "has the tag",
        lambda d: d["vpcs"][VPC].update(Tags=[{"Key": "terradask:workspace", "Value": "default"}]),
    ),
    "no DNS": (
        "network.vpc_id",
        "DNS resolution is off",
        lambda d: d["dns"].update(enableDnsSupport=False),
    ),
    "no subnet": (
        "network.subnets.us-east-1a.worker",
        "no such subnet",
        lambda d: d["subnets"].pop(PRIVATE),
    ),
    "a subnet elsewhere": (
        "network.subnets.us-east-1a.worker",
        "another zone: us-east-1b",
        lambda d: d["subnets"][PRIVATE].update(AvailabilityZone="us-east-1b"),
    ),
    "a subnet of another VPC": (
        "network.subnets.us-east-1a.scheduler",
        "another VPC",
        lambda d: d["subnets"][PUBLIC].update(VpcId="vpc-00000000"),
    ),
    "a subnet without IPv4": (
        "network.subnets.us-east-1a.worker",
        "only IPv6 addresses",
        lambda d: d["subnets"][PRIVATE].update(Ipv6Native=True),
    ),
    "a public subnet that isn't": (
        "network.subnets.us-east-1a.scheduler",
        "it leads to nat-1",
        lambda d: d["route_tables"].pop(0),
    ),
    "workers behind an internet gateway, without public addresses": (
        "network.subnets.us-east-1a.worker",
        "serves only public addresses",
        lambda d: d["route_tables"].__setitem__(
            1, table("rtb-main", {"GatewayId": "igw-1"}, Main=True)
        ),
    ),
    "no way out": (
        "network.subnets.us-east-1a.worker",
        "no endpoint for secretsmanager, autoscaling",
        _without_internet,
    ),
    "one endpoint missing": (
        "network.subnets.us-east-1a.worker",
        "no endpoint for sts",
        lambda d: _without_internet(d, *SERVICES[:-1]),
    ),
    "a NAT gateway that is gone": (
        "network.subnets.us-east-1a.worker",
        "no default route",
        lambda d: d["route_tables"][1]["Routes"][1].update(State="blackhole"),
    ),
    "an endpoint that shuts hosts out": (
        "network.vpc_id",
        (
            "endpoint for logs answers for that service but doesn't allow port 443 from "
            "schedulers "
            "and workers"
        ),
        lambda d: (
            d["endpoints"].append(endpoint("logs")),
            d["security_groups"][ENDPOINTS].update(IpPermissions=[]),
        ),
    ),
    "no security group": (
        "network.security_groups.worker",
        "no such security group",
        lambda d: d["security_groups"].pop(WORKER),
    ),
    "a security group of another VPC": (
        "network.security_groups.worker",
        "another VPC",
        lambda d: d["security_groups"][WORKER].update(VpcId="vpc-00000000"),
    ),
    "the dashboard's port closed to workers": (
        "network.security_groups.scheduler",
        "TCP ports 8786-8787 from workers",
        lambda d: d["security_groups"][SCHEDULER]["IpPermissions"].pop(1),
    ),
    "workers closed to each other": (
        "network.security_groups.worker",
        "from workers",
        lambda d: d["security_groups"][WORKER].update(
            IpPermissions=[rule(1024, 65535, block="10.0.0.0/24")]
        ),
    ),
    "workers closed to the scheduler": (
        "network.security_groups.worker",
        "from schedulers",
        lambda d: d["security_groups"][WORKER]["IpPermissions"].pop(1),
    ),
    "nothing gets out": (
        "network.security_groups.worker",
        "port 443 to no address",
        lambda d: d["security_groups"][WORKER].update(
            IpPermissionsEgress=[rule(8786, 8787, group=SCHEDULER), rule(1024, 65535, group=WORKER)]
        ),
    ),
    "clients shut out": (
        "network.ingress",
        "203.0.113.0/24 on ports 8786-8787",
        lambda d: d["security_groups"][SCHEDULER]["IpPermissions"].pop(2),
    ),
    "no profile": (
        "network.instance_profiles.worker",
        "no such instance profile",
        lambda d: d["profiles"].pop("dask-worker"),
    ),
    "a profile without a role": (
        "network.instance_profiles.worker",
        "holds no role",
        lambda d: d["profiles"]["dask-worker"].update(Roles=[]),
    ),
    "a role for something else": (
        "network.instance_profiles.scheduler",
        "doesn't trust EC2",
        lambda d: d["profiles"]["dask-scheduler"]["Roles"][0]["AssumeRolePolicyDocument"][
            "Statement"
        ][0].update(Principal={"Service": "lambda.amazonaws.com"}),
    ),
    "no boundary": (
        "network.permissions_boundary",
        "no such policy",
        lambda d: d["boundaries"].pop(BOUNDARY),
    ),
    "no key": ("network.kms_key_arn", "no such key", lambda d: d["keys"].clear()),
    "a key that is off": (
        "network.kms_key_arn",
        "KeyState is Disabled",
        lambda d: d["keys"][KEY].update(KeyState="Disabled"),
    ),
    "a key that signs": (
        "network.kms_key_arn",
        "KeyUsage is SIGN_VERIFY",
        lambda d: d["keys"][KEY].update(KeyUsage="SIGN_VERIFY"),
    ),
    "no image": ("network.image", "no such image", lambda d: d["images"].pop(IMAGE)),
    "an image for ARM": (
        "network.image",
        "the image is for arm64",
        lambda d: d["images"][IMAGE].update(Architecture="arm64"),
    ),
    "no image for ARM": (
        "network.arm64_image",
        "no such image",
        lambda d: d["images"].pop(ARM_IMAGE),
    ),
    "an x86-64 image for ARM": (
        "network.arm64_image",
        "the image is for x86_64",
        lambda d: d["images"][ARM_IMAGE].update(Architecture="x86_64"),
    ),
}

LIKELY: dict[str, tuple[str, str, Break]] = {
    "no host names": (
        "network.vpc_id",
        "host names are off",
        lambda d: d["dns"].update(enableDnsHostnames=False),
    ),
    "few addresses": (
        "network.subnets.us-east-1a.worker",
        "49 free addresses, but one cluster may have 50 workers",
        lambda d: d["subnets"][PRIVATE].update(AvailableIpAddressCount=49),
    ),
    "no internet": (
        "network.subnets.us-east-1a.worker",
        "No package can be installed",
        lambda d: _without_internet(d, *SERVICES),
    ),
    "a scheduler open to all": (
        "network.security_groups.scheduler",
        "the whole internet",
        lambda d: d["security_groups"][SCHEDULER]["IpPermissions"].append(
            rule(8786, 8787, block="0.0.0.0/0")
        ),
    ),
    "rules by prefix list": (
        "network.security_groups.worker",
        "only to some addresses",
        lambda d: d["security_groups"][WORKER].update(
            IpPermissionsEgress=[
                {
                    "IpProtocol": "tcp",
                    "FromPort": 443,
                    "ToPort": 443,
                    "PrefixListIds": [{"PrefixListId": "pl-1"}],
                },
                rule(0, 65535, block="10.0.0.0/16"),
            ]
        ),
    ),
    "a key that Auto Scaling may not use": (
        "network.kms_key_arn",
        "AWSServiceRoleForAutoScaling",
        lambda d: d["key_policy"]["Statement"][0]["Principal"].pop("AWS"),
    ),
    "a key that logs may not use": (
        "network.kms_key_arn",
        "CloudWatch Logs",
        lambda d: d["key_policy"]["Statement"][0]["Principal"].pop("Service"),
    ),
}


@pytest.mark.parametrize("case", [*CERTAIN, *LIKELY])
def test_one_thing_wrong_is_one_finding(case: str) -> None:
    where, says, damage = {**CERTAIN, **LIKELY}[case]
    described = healthy()
    damage(described)

    (found,) = findings(described)
    assert (found.where, isinstance(found, LikelyFinding)) == (where, case in LIKELY)
    assert says in str(found)
    assert found.allowed is not None


def test_everything_wrong_is_found_at_once() -> None:
    described = healthy()
    for case in (
        "no DNS",
        "no subnet",
        "workers closed to the scheduler",
        "no profile",
        "a key that is off",
    ):
        CERTAIN[case][2](described)

    assert {found.where for found in findings(described)} == {
        "network.vpc_id",
        "network.subnets.us-east-1a.worker",
        "network.security_groups.worker",
        "network.instance_profiles.worker",
        "network.kms_key_arn",
    }


def test_private_schedulers_need_no_internet_gateway() -> None:
    described = healthy()
    described["route_tables"].pop(0)

    assert findings(described, public_schedulers=False) == []


def test_groups_that_terradask_makes_are_admitted_by_their_subnets() -> None:
    described = healthy()
    described["endpoints"].append(endpoint("logs"))
    for group in (SCHEDULER, WORKER):
        described["security_groups"].pop(group)
    assert findings(described, security_groups=None) == []

    described["security_groups"][ENDPOINTS]["IpPermissions"] = [rule(443, 443, block="10.0.0.0/24")]
    (found,) = findings(described, security_groups=None)
    assert "from workers" in found.problem


def test_given_groups_open_another_port_of_schedulers_to_workers_too() -> None:
    asked = [{"cidr": "203.0.113.0/24", "ports": ["8786-8787", 9000]}]
    (found,) = findings(healthy(), ingress=asked)
    assert "TCP ports 9000 from workers" in found.problem
    described = healthy()
    described["security_groups"][SCHEDULER]["IpPermissions"].append(rule(9000, 9000, group=WORKER))
    assert findings(described, ingress=asked) == []


def test_data_is_a_given_roles_own_affair() -> None:
    (found,) = findings(healthy(), data_buckets=["lake"])

    assert found.where == "network.data_buckets"


def test_rights_of_tasks_that_the_boundary_leaves_out_are_told() -> None:
    table = "arn:aws:dynamodb:us-east-1:123456789012:table/prices"
    asked = {
        "instance_profiles": None,
        "data_buckets": ["lake/raw"],
        "task_rights": [
            {"reason": "prices", "actions": ["dynamodb:GetItem"], "resources": [table]},
            {"reason": "all tables", "actions": ["dynamodb:Query"], "resources": [f"{table}*"]},
        ],
    }

    def told(*statements: dict[str, Any]) -> list[tuple[str, Any]]:
        document = {"Statement": [{"Effect": "Allow", **one} for one in statements]}
        described = {**healthy(), "boundary_document": document}
        found = findings(described, **asked)
        assert all(isinstance(finding, LikelyFinding) for finding in found)
        return [(finding.where, finding.given) for finding in found]

    right, bucket = "network.task_rights", "network.data_buckets"
    nothing = [(bucket, "lake/raw"), (right, "prices"), (right, "all tables")]
    assert told() == told({"Action": "iam:*", "Resource": "*"}) == nothing
    assert told({"Action": "*", "Resource": "*"}) == []
    assert told({"NotAction": "iam:*", "Resource": "*"}) == []
    assert told({"Action": ["S3:Get*", "dynamodb:GetItem"], "Resource": "*"}) == nothing[2:]
    lake = {"Action": "s3:GetObject", "Resource": "arn:aws:s3:::lake/raw/2026/*"}
    assert told(lake) == nothing[1:]
    assert told({**lake, "Resource": "arn:aws:s3:::lakes/*"}) == nothing
    # As hosts' own boundary has them.
    one = {"Action": "dynamodb:*", "Resource": [table, f"{table}-2"]}
    assert told(lake, one) == []


def test_an_endpoint_for_s3_counts_in_its_own_tables_alone() -> None:
    described = healthy()
    _without_internet(described, *SERVICES)
    described["endpoints"][0]["RouteTableIds"] = ["rtb-public"]

    (found,) = findings(described)
    assert "no endpoint for s3" in found.problem
    described["endpoints"][0] = endpoint("s3")
    (found,) = findings(described)
    assert isinstance(found, LikelyFinding)
