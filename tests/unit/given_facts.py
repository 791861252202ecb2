"""A given VPC in which everything is as it must be, for tests that break one thing in it."""

from __future__ import annotations

import json
from typing import Any

from terradask._network.given_facts import GivenFacts
from terradask_stacks.settings import Settings

REGION = "us-east-1"
VPC = "vpc-0123456789abcdef0"
PUBLIC, PRIVATE = "subnet-000000000000000aa", "subnet-000000000000000bb"
SCHEDULER, WORKER, ENDPOINTS = (
    "sg-000000000000000aa",
    "sg-000000000000000bb",
    "sg-000000000000000cc",
)
KEY = "arn:aws:kms:us-east-1:123456789012:key/0123abcd-01ab-23cd-45ef-0123456789ab"
BOUNDARY = "arn:aws:iam::123456789012:policy/boundary"
IMAGE = "ami-0123456789abcdef0"
ARM_IMAGE = "ami-0123456789abcdef1"
SERVICES = ["secretsmanager", "autoscaling", "ec2", "logs", "sts"]

NETWORK: dict[str, Any] = {
    "vpc_id": VPC,
    "subnets": {"us-east-1a": {"scheduler": PUBLIC, "worker": PRIVATE}},
    "security_groups": {"scheduler": SCHEDULER, "worker": WORKER},
    "instance_profiles": {"scheduler": "dask-scheduler", "worker": "dask-worker"},
    "permissions_boundary": BOUNDARY,
    "kms_key_arn": KEY,
    "image": IMAGE,
    "arm64_image": ARM_IMAGE,
    "ingress": [{"cidr": "203.0.113.0/24"}],
}


def settings(**network: Any) -> Settings:
    """Return settings in which everything is given, with some of it changed; None leaves a setting
    out.
    """
    given = {key: value for key, value in {**NETWORK, **network}.items() if value is not None}
    return Settings.model_validate({"network": given, "cluster": {"max_workers": 50}})


def rule(
    first: int, last: int, *, group: str | None = None, block: str | None = None
) -> dict[str, Any]:
    """Return a rule of a security group, as EC2 describes it."""
    return {
        "IpProtocol": "tcp",
        "FromPort": first,
        "ToPort": last,
        "UserIdGroupPairs": [{"GroupId": group}] if group else [],
        "IpRanges": [{"CidrIp": block}] if block else [],
    }


def endpoint(service: str, kind: str = "Interface", **changes: Any) -> dict[str, Any]:
    """Return an endpoint of the VPC, as EC2 describes it."""
    described: dict[str, Any] = {
        "VpcEndpointId": f"vpce-{service}",
        "VpcEndpointType": kind,
        "ServiceName": f"com.amazonaws.{REGION}.{service}",
        "State": "available",
    }
    if kind == "Interface":
        described |= {"PrivateDnsEnabled": True, "Groups": [{"GroupId": ENDPOINTS}]}
    return {**described, **changes}


def table(name: str, target: dict[str, str] | None, **association: Any) -> dict[str, Any]:
    """Return a route table with a default route, as EC2 describes it."""
    default = [{"DestinationCidrBlock": "0.0.0.0/0", "State": "active", **target}] if target else []
    return {
        "RouteTableId": name,
        "Associations": [association],
        "Routes": [{"DestinationCidrBlock": "10.0.0.0/16", "GatewayId": "local"}, *default],
    }


def healthy() -> dict[str, Any]:
    """Return the fields of facts with which nothing is wrong."""
    trust = {
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": "ec2.amazonaws.com"},
                "Action": "sts:AssumeRole",
            }
        ]
    }
    everything = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
    facts = {
        "vpcs": {VPC: {"VpcId": VPC, "State": "available"}},
        "dns": {"enableDnsSupport": True, "enableDnsHostnames": True},
        "subnets": {
            name: {
                "SubnetId": name,
                "VpcId": VPC,
                "AvailabilityZone": "us-east-1a",
                "CidrBlock": block,
                "AvailableIpAddressCount": 200,
            }
            for name, block in ((PUBLIC, "10.0.0.0/24"), (PRIVATE, "10.0.16.0/20"))
        },
        "route_tables": [
            table("rtb-public", {"GatewayId": "igw-1"}, SubnetId=PUBLIC, Main=False),
            table("rtb-main", {"NatGatewayId": "nat-1"}, Main=True),
        ],
        "endpoints": [endpoint("s3", "Gateway", RouteTableIds=["rtb-main"])],
        "security_groups": {
            SCHEDULER: {
                "GroupId": SCHEDULER,
                "VpcId": VPC,
                "IpPermissions": [
                    rule(8786, 8786, group=WORKER),
                    rule(8787, 8787, group=WORKER),
                    rule(8000, 9000, block="203.0.113.0/24"),
                ],
                "IpPermissionsEgress": [everything],
            },
            WORKER: {
                "GroupId": WORKER,
                "VpcId": VPC,
                "IpPermissions": [
                    rule(0, 65535, group=WORKER),
                    rule(1024, 65535, block="10.0.0.0/16"),
                ],
                "IpPermissionsEgress": [everything],
            },
            ENDPOINTS: {
                "GroupId": ENDPOINTS,
                "VpcId": VPC,
                "IpPermissions": [rule(443, 443, block="10.0.0.0/16")],
            },
        },
        "profiles": {
            name: {
                "InstanceProfileName": name,
                "Roles": [{"RoleName": name, "AssumeRolePolicyDocument": trust}],
            }
            for name in ("dask-scheduler", "dask-worker")
        },
        "boundaries": {BOUNDARY: {"Arn": BOUNDARY}},
        "keys": {
            KEY: {
                "KeyState": "Enabled",
                "KeyUsage": "ENCRYPT_DECRYPT",
                "KeySpec": "SYMMETRIC_DEFAULT",
            }
        },
        "key_policy": {
            "Statement": [
                {
                    "Effect": "Allow",
                    "Principal": {
                        "AWS": (
                            "arn:aws:iam::123456789012:role/aws-service-role/"
                            "autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"
                        ),
                        "Service": ["logs.us-east-1.amazonaws.com"],
                    },
                    "Action": "kms:*",
                }
            ]
        },
        "images": {
            image: {"ImageId": image, "Architecture": architecture, "State": "available"}
            for image, architecture in ((IMAGE, "x86_64"), (ARM_IMAGE, "arm64"))
        },
    }
    # Parts of it are the same objects; whoever breaks one must not break another.
    separate: dict[str, Any] = json.loads(json.dumps(facts))
    return separate


def facts(**fields: Any) -> GivenFacts:
    """Return facts from fields."""
    return GivenFacts(region=REGION, **fields)
