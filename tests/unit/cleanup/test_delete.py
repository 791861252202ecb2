"""Resources are deleted in order, and waited for; on moto."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from terradask._aws.session import Aws
from terradask._cleanup import delete
from terradask._cleanup.delete import delete_resource, delete_resources
from terradask._cleanup.resources import (
    AUTOSCALING_GROUP,
    SECRET,
    Resource,
)
from terradask._common.progress import Message, ProgressEvent
from terradask.errors import BaselineError, ClusterError

from .planted import Planted, own, remains


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse to remove a security group that a rule of another one names, or that an interface is
    in, as AWS does and moto doesn't.
    """
    from botocore.client import BaseClient

    call = BaseClient._make_api_call

    def checked(self: Any, operation: str, arguments: dict[str, Any]) -> Any:
        if operation == "DeleteSecurityGroup":
            group = arguments["GroupId"]
            rules = call(self, "DescribeSecurityGroupRules", {})["SecurityGroupRules"]
            named = any(
                r["GroupId"] != group and r.get("ReferencedGroupInfo", {}).get("GroupId") == group
                for r in rules
            )
            interfaces = call(self, "DescribeNetworkInterfaces", {})["NetworkInterfaces"]
            if named or any(g["GroupId"] == group for i in interfaces for g in i["Groups"]):
                raise ClientError(
                    {"Error": {"Code": "DependencyViolation", "Message": "has a dependent object"}},
                    operation,
                )
        return call(self, operation, arguments)

    monkeypatch.setattr(BaseClient, "_make_api_call", checked)


@pytest.mark.usefixtures("strict")
def test_groups_that_name_each_other_go(aws: Aws, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(delete, "LIMIT_SECONDS", -1)
    Planted(aws, "default", "etl")
    delete_resources(aws, own(aws, "etl"), progress=lambda _: None, cluster="etl")
    assert own(aws, "etl") == []


@pytest.mark.usefixtures("strict")
def test_a_group_waits_for_the_interfaces_of_instances_that_end(
    aws: Aws, monkeypatch: pytest.MonkeyPatch
):
    ec2 = aws.client("ec2")
    worker = Planted(aws, "default", "etl").groups["worker"]
    subnet = ec2.describe_subnets()["Subnets"][0]["SubnetId"]
    interface = ec2.create_network_interface(SubnetId=subnet, Groups=[worker])["NetworkInterface"][
        "NetworkInterfaceId"
    ]
    monkeypatch.setattr(delete, "LIMIT_SECONDS", -1)
    with pytest.raises(
        ClusterError, match=rf"aws_security_group {worker} .* can't be removed"
    ) as caught:
        remains(aws, "etl", []).remove_unknown(dict)
    assert caught.value.cluster == "etl"
    assert "terradask destroy etl" in str(caught.value)
    with pytest.raises(BaselineError, match="terradask destroy network"):
        delete_resources(aws, own(aws, "etl"), progress=lambda _: None)

    def end(event: ProgressEvent) -> None:
        if isinstance(event, Message) and event.text.startswith("waiting"):
            ec2.delete_network_interface(NetworkInterfaceId=interface)

    monkeypatch.setattr(delete, "LIMIT_SECONDS", 5)
    delete_resources(aws, own(aws, "etl"), progress=end, cluster="etl")
    assert own(aws, "etl") == []


def test_an_address_waits_for_its_nat_gateway(aws: Aws, monkeypatch: pytest.MonkeyPatch):
    """EC2 says of such an address what it says of wrong credentials, too."""
    ec2 = aws.client("ec2")
    address = ec2.allocate_address(Domain="vpc")["AllocationId"]
    make, told = ec2._make_api_call, []

    def refusing(operation: str, arguments: dict[str, Any]) -> Any:
        if operation == "ReleaseAddress" and not told:
            raise ClientError({"Error": {"Code": "AuthFailure", "Message": "in use"}}, operation)
        return make(operation, arguments)

    monkeypatch.setattr(ec2, "_make_api_call", refusing)
    delete_resources(aws, [Resource("aws_eip", address)], progress=told.append)
    assert ec2.describe_addresses()["Addresses"] == []


@pytest.mark.parametrize(
    "kind", [AUTOSCALING_GROUP, SECRET, "aws_vpc", "aws_iam_role", "aws_cloudwatch_log_group"]
)
def test_what_is_gone_already_is_no_error(aws: Aws, kind: str):
    identity = "vpc-00000000" if kind == "aws_vpc" else "gone"
    delete_resource(aws, Resource(kind, identity))
