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


def refuse_once(client: Any, patch: pytest.MonkeyPatch, operation: str, answer: Any) -> list[str]:
    """Make a client refuse an operation's first call by an error, or by items in an answer; return
    the calls.
    """
    make, calls = client._make_api_call, []

    def refusing(called: str, arguments: dict[str, Any]) -> Any:
        calls.append(called)
        if called != operation or calls.count(operation) > 1:
            return make(called, arguments)
        if isinstance(answer, Exception):
            raise answer
        return answer

    patch.setattr(client, "_make_api_call", refusing)
    return calls


def error_of(code: str, message: str, operation: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, operation)


def test_an_address_waits_for_its_nat_gateway(aws: Aws, monkeypatch: pytest.MonkeyPatch):
    """EC2 says of such an address what it says of wrong credentials, too."""
    ec2 = aws.client("ec2")
    address = ec2.allocate_address(Domain="vpc")["AllocationId"]
    refusal = error_of("AuthFailure", "in use", "ReleaseAddress")
    refuse_once(ec2, monkeypatch, "ReleaseAddress", refusal)
    delete_resources(aws, [Resource("aws_eip", address)], progress=lambda _: None)
    assert ec2.describe_addresses()["Addresses"] == []


IN_USE = {"Code": "DependencyViolation", "Message": "in use by the route table rtb-1"}


@pytest.mark.parametrize(
    ("kind", "operation"),
    [("aws_vpc_endpoint", "DeleteVpcEndpoints"), ("aws_flow_log", "DeleteFlowLogs")],
)
def test_what_an_answer_lists_as_unsuccessful_is_waited_for(
    aws: Aws, monkeypatch: pytest.MonkeyPatch, kind: str, operation: str
):
    ec2 = aws.client("ec2")
    calls = refuse_once(ec2, monkeypatch, operation, {"Unsuccessful": [{"Error": IN_USE}]})
    delete_resources(aws, [Resource(kind, "x-00000000")], progress=lambda _: None)
    assert calls.count(operation) == 2
    denied = {"Unsuccessful": [{"Error": {"Code": "OperationNotPermitted", "Message": "managed"}}]}
    refuse_once(ec2, monkeypatch, operation, denied)
    with pytest.raises(ClientError, match="OperationNotPermitted"):
        delete_resource(aws, Resource(kind, "x-00000000"))


@pytest.mark.parametrize(
    ("kind", "identity", "operation", "code", "message"),
    [
        (
            "aws_security_group",
            "sg-00000000",
            "DeleteSecurityGroup",
            "InvalidGroup.InUse",
            "in use",
        ),
        ("aws_ebs_volume", "vol-1", "DeleteVolume", "VolumeInUse", "attached to i-1"),
        (
            "aws_network_interface",
            "eni-1",
            "DeleteNetworkInterface",
            "InvalidParameterValue",
            "Network interface 'eni-1' is currently in use.",
        ),
        (AUTOSCALING_GROUP, "etl", "DeleteAutoScalingGroup", "ResourceInUse", "instances"),
        (AUTOSCALING_GROUP, "etl", "DeleteAutoScalingGroup", "ScalingActivityInProgress", "…"),
    ],
)
def test_what_is_in_use_is_deleted_once_it_is_free(
    aws: Aws,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    identity: str,
    operation: str,
    code: str,
    message: str,
):
    client = aws.client("autoscaling" if kind == AUTOSCALING_GROUP else "ec2")
    remove = delete_resource
    if kind == "aws_security_group":
        # Only Terraform's leftovers wait for others' resources.
        def remove(aws: Aws, resource: Resource) -> None:
            delete_resources(aws, [resource], progress=lambda _: None)

    calls = refuse_once(client, monkeypatch, operation, error_of(code, message, operation))
    remove(aws, Resource(kind, identity))
    assert calls.count(operation) == 2
    monkeypatch.setattr(delete, "SOON_SECONDS", -1)
    monkeypatch.setattr(delete, "LIMIT_SECONDS", -1)
    refuse_once(client, monkeypatch, operation, error_of(code, message, operation))
    with pytest.raises((ClientError, BaselineError), match=message):
        remove(aws, Resource(kind, identity))


def test_a_value_that_is_wrong_is_not_in_use(aws: Aws, monkeypatch: pytest.MonkeyPatch):
    operation = "DeleteNetworkInterface"
    refusal = error_of("InvalidParameterValue", "no such thing", operation)
    calls = refuse_once(aws.client("ec2"), monkeypatch, operation, refusal)
    with pytest.raises(ClientError, match="no such thing"):
        delete_resource(aws, Resource("aws_network_interface", "eni-1"))
    assert calls == [operation]


@pytest.mark.parametrize(
    "kind", [AUTOSCALING_GROUP, SECRET, "aws_vpc", "aws_iam_role", "aws_cloudwatch_log_group"]
)
def test_what_is_gone_already_is_no_error(aws: Aws, kind: str):
    identity = "vpc-00000000" if kind == "aws_vpc" else "gone"
    delete_resource(aws, Resource(kind, identity))
