"""EC2's operations become the permissions that AWS asks for; the pages are named where
they say so.
"""

from __future__ import annotations

import pytest
from tests.unit.iam_requests import ACCOUNT, SmallWorld, asked, context, query

from terradask_simulator.aws.iam.mapping import context_of, needs_of


def test_an_action_without_resources():
    assert asked(query("ec2", "DescribeInstances", Filter__1__Name="x")) == [
        ("ec2:DescribeInstances", "*")
    ]
    assert asked(
        query("autoscaling", "DescribeAutoScalingGroups", AutoScalingGroupNames__member__1="g")
    ) == [("autoscaling:DescribeAutoScalingGroups", "*")]


def test_named_resources_with_their_tags():
    world = SmallWorld(tags={"i-1": {"terradask:workspace": "a"}})
    operation = query("ec2", "TerminateInstances", InstanceId__1="i-1", InstanceId__2="i-2")
    assert asked(operation, world) == [
        ("ec2:TerminateInstances", "instance/i-1"),
        ("ec2:TerminateInstances", "instance/i-2"),
    ]
    assert context(operation, world) == {
        "aws:ResourceTag/terradask:workspace": ("a",),
        "ec2:ResourceTag/terradask:workspace": ("a",),
    }
    assert context(operation, world, 1) == {}


# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/supported-iam-actions-tagging.html
def test_creating_with_tags_needs_the_right_to_tag():
    tags = {
        "TagSpecification__1__ResourceType": "subnet",
        "TagSpecification__1__Tag__1__Key": "k",
        "TagSpecification__1__Tag__1__Value": "v",
    }
    operation = query("ec2", "CreateSubnet", VpcId="vpc-1", **tags)
    assert asked(operation) == [
        ("ec2:CreateSubnet", "subnet/*"),
        ("ec2:CreateSubnet", "vpc/vpc-1"),
        ("ec2:CreateTags", "subnet/*"),
    ]
    needs = {
        (need.action, need.kind): context_of(need, {}) for need in needs_of(operation, SmallWorld())
    }
    asked_tags = {"aws:RequestTag/k": ("v",), "aws:TagKeys": ("k",)}
    assert needs["ec2:CreateTags", "subnet"] == {
        **asked_tags,
        "ec2:CreateAction": ("CreateSubnet",),
    }
    assert needs["ec2:CreateSubnet", "subnet"].items() >= asked_tags.items()
    assert not needs["ec2:CreateSubnet", "vpc"].keys() & asked_tags.keys()


@pytest.mark.parametrize(
    ("kind", "operation", "parameters", "besides"),
    [
        ("launch-template", "CreateLaunchTemplate", {"LaunchTemplateName": "new"}, []),
        (
            "security-group",
            "CreateSecurityGroup",
            {"GroupName": "new", "VpcId": "vpc-1"},
            ["vpc/vpc-1"],
        ),
        (
            "security-group-rule",
            "AuthorizeSecurityGroupIngress",
            {"GroupId": "sg-1"},
            ["security-group/sg-1"],
        ),
        (
            "security-group-rule",
            "AuthorizeSecurityGroupEgress",
            {"GroupId": "sg-1"},
            ["security-group/sg-1"],
        ),
    ],
)
def test_tags_at_birth_belong_to_what_is_made_alone(kind, operation, parameters, besides):
    tag = {"ResourceType": kind, "Tag__1__Key": "k", "Tag__1__Value": "v"}
    made = query(
        "ec2",
        operation,
        **parameters,
        **{f"TagSpecification__1__{name}": value for name, value in tag.items()},
    )
    world = SmallWorld(tags={"sg-1": {"has": "b"}, "vpc-1": {"has": "b"}})
    action = f"ec2:{operation}"
    assert asked(made, world) == sorted(
        [("ec2:CreateTags", f"{kind}/*"), *((action, one) for one in (f"{kind}/*", *besides))]
    )
    for need in needs_of(made, world):
        found = context_of(need, {})
        assert found.get("aws:RequestTag/k") == (("v",) if need.kind == kind else None)
        assert found.get("aws:ResourceTag/has") == (None if need.kind == kind else ("b",))
        assert found.get("ec2:CreateAction") == (
            (operation,) if need.action == "ec2:CreateTags" else None
        )


# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DeleteTags.html: without tags, all of
# them are taken away.
def test_taking_every_tag_away_names_none():
    world = SmallWorld(tags={"sg-1": {"w": "a"}})
    assert context(query("ec2", "DeleteTags", ResourceId__1="sg-1", Tag__1__Key="k"), world)[
        "aws:TagKeys"
    ] == ("k",)
    assert "aws:TagKeys" not in context(query("ec2", "DeleteTags", ResourceId__1="sg-1"), world)


@pytest.mark.parametrize(
    ("action", "parameters", "expected"),
    [
        ("CreateVpc", {"CidrBlock": "10.0.0.0/16"}, ["vpc/*"]),
        (
            "CreateNatGateway",
            {"SubnetId": "subnet-1", "AllocationId": "eipalloc-1"},
            ["elastic-ip/eipalloc-1", "natgateway/*", "subnet/subnet-1"],
        ),
        ("DeleteNatGateway", {"NatGatewayId": "nat-1"}, ["natgateway/nat-1"]),
        (
            "DisassociateRouteTable",
            {"AssociationId": "rtbassoc-1"},
            ["route-table/rtb-1", "subnet/subnet-1"],
        ),
        # It went with its NAT gateway: EC2 itself says that it isn't there.
        ("DisassociateAddress", {"AssociationId": "eipassoc-gone"}, []),
        (
            "AttachInternetGateway",
            {"VpcId": "vpc-1", "InternetGatewayId": "igw-1"},
            ["internet-gateway/igw-1", "vpc/vpc-1"],
        ),
        ("AuthorizeSecurityGroupIngress", {"GroupId": "sg-1"}, ["security-group/sg-1"]),
        (
            "RevokeSecurityGroupEgress",
            {"GroupId": "sg-1", "SecurityGroupRuleId__1": "sgr-1"},
            ["security-group/sg-1"],
        ),
        (
            "ModifySecurityGroupRules",
            {"GroupId": "sg-1", "SecurityGroupRule__1__SecurityGroupRuleId": "sgr-1"},
            ["security-group-rule/sgr-1", "security-group/sg-1"],
        ),
        (
            "CreateVpcEndpoint",
            {"VpcId": "vpc-1", "RouteTableId__1": "rtb-1"},
            ["route-table/rtb-1", "vpc-endpoint/*", "vpc/vpc-1"],
        ),
        ("DeleteVpcEndpoints", {"VpcEndpointId__1": "vpce-1"}, ["vpc-endpoint/vpce-1"]),
        ("CreateLaunchTemplate", {"LaunchTemplateName": "new"}, ["launch-template/*"]),
        ("CreateLaunchTemplateVersion", {"LaunchTemplateName": "host"}, ["launch-template/lt-1"]),
        ("DeleteLaunchTemplate", {"LaunchTemplateId": "lt-1"}, ["launch-template/lt-1"]),
        ("ModifySubnetAttribute", {"SubnetId": "subnet-1"}, ["subnet/subnet-1"]),
        (
            "CreatePlacementGroup",
            {"GroupName": "a.b", "Strategy": "cluster"},
            ["placement-group/*"],
        ),
        ("DeletePlacementGroup", {"GroupName": "a.b"}, ["placement-group/a.b"]),
        ("ReleaseAddress", {"AllocationId": "eipalloc-1"}, ["elastic-ip/eipalloc-1"]),
    ],
)
def test_what_ec2s_operations_work_on(action, parameters, expected):
    assert asked(query("ec2", action, **parameters)) == [
        (f"ec2:{action}", resource) for resource in expected
    ]


def test_flow_logs_watch_what_is_named_and_pass_a_role():
    role = f"arn:aws:iam::{ACCOUNT}:role/flow"
    operation = query(
        "ec2",
        "CreateFlowLogs",
        ResourceType="VPC",
        ResourceId__1="vpc-1",
        DeliverLogsPermissionArn=role,
    )
    assert asked(operation) == [
        ("ec2:CreateFlowLogs", "vpc-flow-log/*"),
        ("ec2:CreateFlowLogs", "vpc/vpc-1"),
        ("iam:PassRole", role),
    ]
    assert context(operation, number=-1) == {
        "iam:PassedToService": ("vpc-flow-logs.amazonaws.com",)
    }


def test_an_interface_endpoint_with_the_services_own_names():
    endpoint = {
        "VpcId": "vpc-1",
        "VpcEndpointType": "Interface",
        "SubnetId__1": "subnet-1",
        "SecurityGroupId__1": "sg-1",
    }
    zone = ("route53:AssociateVPCWithHostedZone", "arn:aws:route53:::hostedzone/*")
    assert zone in asked(query("ec2", "CreateVpcEndpoint", PrivateDnsEnabled="true", **endpoint))
    assert zone not in asked(
        query("ec2", "CreateVpcEndpoint", PrivateDnsEnabled="false", **endpoint)
    )


def test_tagging_what_exists():
    world = SmallWorld(tags={"vol-1": {"owner": "a"}})
    operation = query(
        "ec2", "CreateTags", ResourceId__1="vol-1", Tag__1__Key="k", Tag__1__Value="v"
    )
    assert asked(operation, world) == [("ec2:CreateTags", "volume/vol-1")]
    expected = {
        "aws:RequestTag/k": ("v",),
        "aws:TagKeys": ("k",),
        "aws:ResourceTag/owner": ("a",),
        "ec2:ResourceTag/owner": ("a",),
    }
    assert context(operation, world) == expected
