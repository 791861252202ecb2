"""AWS's side of interface endpoints, looked up once. No AWS is asked."""

from __future__ import annotations

from typing import Any

import pytest

from terradask._synthesis.resolve_network import (
    check_names,
    check_zones,
    find_endpoint_services,
    resolve_network,
)
from terradask.errors import AccessDenied, InvalidInput
from terradask_stacks.lock import EndpointService, NetworkLock
from terradask_stacks.settings import Settings

from .quota_facts import Client

CHINA = {
    "cn.com.amazonaws.cn-north-1.ec2": ["cn-north-1a", "cn-north-1b"],
    "com.amazonaws.cn-north-1.logs": ["cn-north-1b"],
    "aws.sagemaker.cn-north-1.notebook": ["cn-north-1a"],
    "com.amazonaws.vpce.cn-north-1.vpce-svc-1": ["cn-north-1a"],
}


class China:
    """A region whose services have names of two forms, and which the caller may see or not."""

    region, account_id, partition, caller_arn = "cn-north-1", "123456789012", "aws-cn", "arn"

    def __init__(self, *, denied: bool = False) -> None:
        self.denied = denied
        self.asked = 0

    def client(self, _name: str) -> Client:
        def services(**_: Any) -> dict[str, Any]:
            self.asked += 1
            if self.denied:
                raise AccessDenied("ec2:DescribeVpcEndpointServices", "no")
            return {
                "ServiceDetails": [
                    {"ServiceName": name, "AvailabilityZones": zones}
                    for name, zones in CHINA.items()
                ]
            }

        return Client({"describe_vpc_endpoint_services": services})


def test_names_and_zones_are_as_aws_lists_them() -> None:
    found = find_endpoint_services(China(), ["ec2", "logs"])  # type: ignore[arg-type]
    assert {service: (one.name, one.zones) for service, one in found.items()} == {
        "ec2": ("cn.com.amazonaws.cn-north-1.ec2", ["cn-north-1a", "cn-north-1b"]),
        "logs": ("com.amazonaws.cn-north-1.logs", ["cn-north-1b"]),
    }
    check_zones(found, ["cn-north-1a", "cn-north-1b"])
    with pytest.raises(InvalidInput, match=r"no zone of the network can have an endpoint for logs"):
        check_zones(found, ["cn-north-1a"])


def test_a_service_that_the_region_lacks_is_refused() -> None:
    with pytest.raises(InvalidInput, match="cn-north-1 has no interface endpoint") as caught:
        find_endpoint_services(China(), ["notebook", "ec2", "sts"])  # type: ignore[arg-type]
    assert caught.value.given == "notebook, sts"


def test_without_the_permission_names_are_those_of_most_regions() -> None:
    assert find_endpoint_services(China(denied=True), ["ec2"]) == {}  # type: ignore[arg-type]


def test_locked_services_are_not_looked_up_again() -> None:
    settings = Settings.model_validate(
        {
            "workspace": {"region": "cn-north-1"},
            "network": {"interface_endpoints": ["ec2"], "zones": ["cn-north-1a"]},
        }
    )
    lock = NetworkLock(
        account="123456789012",
        partition="aws-cn",
        zones={"cn-north-1a": 0},
        image_ids={"x86_64": "ami-0123456789abcdef0"},
    )
    aws = China()
    found = resolve_network(settings, aws, lock, check=False)  # type: ignore[arg-type]
    assert found.endpoint_services["ec2"].name == "cn.com.amazonaws.cn-north-1.ec2"
    assert resolve_network(settings, aws, found, check=False) == found  # type: ignore[arg-type]
    assert aws.asked == 1


@pytest.mark.parametrize(
    "name",
    [
        "com.amazonaws.vpce.us-east-1.vpce-svc-0123456789abcdef0",
        "com.amazonaws.us-east-1.ec2",
        "com.example.us-east-1.logs",
        "logs",
    ],
)
def test_a_locked_service_of_somebody_elses_is_refused(name: str) -> None:
    check_names(
        {"logs": EndpointService(name="com.amazonaws.us-east-1.logs", zones=[])}, "us-east-1"
    )
    with pytest.raises(InvalidInput, match="isn't AWS's"):
        check_names({"logs": EndpointService(name=name, zones=[])}, "us-east-1")
