"""Launches, by themselves and through groups, become the permissions that AWS asks for; the pages
are named where they say so.
"""

from __future__ import annotations

import pytest
from tests.unit.iam_requests import ACCOUNT, EC2, REGION, SmallWorld, asked, context, query

from terradask_simulator.aws.iam.mapping import context_of, needs_of

TEMPLATE = {
    "ImageId": "ami-1",
    "InstanceType": "m7i.large",
    "IamInstanceProfile": {"Arn": f"arn:aws:iam::{ACCOUNT}:instance-profile/worker"},
    "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": ["sg-1"]}],
    "MetadataOptions": {"HttpTokens": "required"},
    "TagSpecifications": [
        {"ResourceType": kind, "Tags": [{"Key": "w", "Value": "a"}]}
        for kind in ("instance", "volume")
    ],
}
LAUNCH = [
    ("ec2:CreateTags", "instance/*"),
    ("ec2:CreateTags", "volume/*"),
    ("ec2:RunInstances", "arn:aws:ec2:us-east-1::image/ami-1"),
    ("ec2:RunInstances", "instance/*"),
    ("ec2:RunInstances", "launch-template/lt-1"),
    ("ec2:RunInstances", "network-interface/*"),
    ("ec2:RunInstances", "security-group/sg-1"),
    ("ec2:RunInstances", "subnet/subnet-1"),
    ("ec2:RunInstances", "volume/*"),
    ("iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/worker"),
]
GROUP = f"arn:aws:autoscaling:{REGION}:{ACCOUNT}:autoScalingGroup:"
MIXED = "MixedInstancesPolicy__LaunchTemplate__"


# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/use-launch-templates-to-control-launching-instances.html
def test_launching_by_a_template():
    world = SmallWorld(templates={"lt-1": TEMPLATE})
    operation = query(
        "ec2",
        "RunInstances",
        LaunchTemplate__LaunchTemplateId="lt-1",
        LaunchTemplate__Version="1",
        SubnetId="subnet-1",
    )
    assert asked(operation, world) == LAUNCH
    found = {(need.action, need.kind): context_of(need, {}) for need in needs_of(operation, world)}
    instance = found["ec2:RunInstances", "instance"]
    assert instance["ec2:IsLaunchTemplateResource"] == ("true",)
    assert instance["ec2:LaunchTemplate"] == (f"{EC2}launch-template/lt-1",)
    assert instance["ec2:MetadataHttpTokens"] == ("required",)
    assert instance["aws:RequestTag/w"] == ("a",)
    assert found["ec2:RunInstances", "subnet"]["ec2:IsLaunchTemplateResource"] == ("false",)
    assert found["ec2:CreateTags", "volume"]["ec2:CreateAction"] == ("RunInstances",)
    assert found["iam:PassRole", "role"] == {"iam:PassedToService": ("ec2.amazonaws.com",)}


def test_a_group_that_names_reservations_needs_to_launch_into_them():
    world = SmallWorld(templates={"lt-1": TEMPLATE})
    reserved = f"arn:aws:resource-groups:{REGION}:{ACCOUNT}:group/reserved"
    target = "CapacityReservationSpecification__CapacityReservationTarget__"
    operation = query(
        "autoscaling",
        "CreateAutoScalingGroup",
        AutoScalingGroupName="a-g",
        MaxSize="4",
        VPCZoneIdentifier="subnet-1",
        LaunchTemplate__LaunchTemplateId="lt-1",
        LaunchTemplate__Version="3",
        **{
            f"{target}CapacityReservationIds__member__1": "cr-1",
            f"{target}CapacityReservationResourceGroupArns__member__1": reserved,
        },
    )
    needs = {need.kind: need for need in needs_of(operation, world)}
    one, group = needs["capacity-reservation"], needs["group"]
    assert (one.resource, group.resource) == (f"{EC2}capacity-reservation/cr-1", reserved)
    found = context_of(one, {})
    assert found["ec2:LaunchTemplate"] == (f"{EC2}launch-template/lt-1",)
    assert found["ec2:IsLaunchTemplateResource"] == ("false",)
    # A group of Resource Groups has no condition keys.
    assert "ec2:LaunchTemplate" not in context_of(group, {})


# https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-api-permissions.html
def test_a_group_on_a_template_needs_what_its_launches_need():
    world = SmallWorld(templates={"lt-1": TEMPLATE})
    operation = query(
        "autoscaling",
        "CreateAutoScalingGroup",
        AutoScalingGroupName="a-g",
        MaxSize="4",
        VPCZoneIdentifier="subnet-1",
        Tags__member__1__Key="w",
        Tags__member__1__Value="a",
        **{
            f"{MIXED}LaunchTemplateSpecification__LaunchTemplateId": "lt-1",
            f"{MIXED}LaunchTemplateSpecification__Version": "3",
            f"{MIXED}Overrides__member__1__InstanceType": "m7i.large",
        },
    )
    assert asked(operation, world) == [
        ("autoscaling:CreateAutoScalingGroup", f"{GROUP}*:autoScalingGroupName/a-g"),
        *LAUNCH,
    ]
    # https://docs.aws.amazon.com/autoscaling/ec2/userguide/autoscaling-service-linked-role.html
    world.service_roles = False
    made = set(asked(operation, world)) - {*LAUNCH}
    assert {action for action, _ in made} == {
        "autoscaling:CreateAutoScalingGroup",
        "iam:CreateServiceLinkedRole",
    }
    world.service_roles = True
    needs = needs_of(operation, world)
    assert context_of(needs[0], {}) == {
        "autoscaling:InstanceTypes": ("m7i.large",),
        "autoscaling:LaunchTemplateVersionSpecified": ("true",),
        "autoscaling:MaxSize": ("4",),
        "autoscaling:ResourceTag/w": ("a",),
        "autoscaling:VPCZoneIdentifiers": ("subnet-1",),
        "aws:RequestTag/w": ("a",),
        "aws:ResourceTag/w": ("a",),
        "aws:TagKeys": ("w",),
    }
    assert {need.refusal for need in needs[1:]} == {
        "You are not authorized to use launch template: lt-1"
    }


def test_a_launch_in_a_placement_group_is_there():
    world = SmallWorld(templates={"lt-1": TEMPLATE})
    asking = {
        "AutoScalingGroupName": "a-g",
        f"{MIXED}LaunchTemplateSpecification__LaunchTemplateId": "lt-1",
    }
    plain = asked(query("autoscaling", "UpdateAutoScalingGroup", **asking), world)
    placed = asked(
        query("autoscaling", "UpdateAutoScalingGroup", PlacementGroup="a.b", **asking), world
    )
    assert set(placed) - set(plain) == {("ec2:RunInstances", "placement-group/a.b")}
    alone = {"ImageId": "ami-1", "SubnetId": "subnet-1"}
    plain = asked(query("ec2", "RunInstances", **alone), world)
    placed = asked(query("ec2", "RunInstances", Placement__GroupName="a.b", **alone), world)
    assert set(placed) - set(plain) == {("ec2:RunInstances", "placement-group/a.b")}


# https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-launch-template-permissions.html
@pytest.mark.parametrize(
    ("version", "exact"), [("3", "true"), ("$Latest", "false"), ("$Default", "false")]
)
def test_whether_a_template_is_named_with_its_version(version, exact):
    operation = query(
        "autoscaling",
        "UpdateAutoScalingGroup",
        AutoScalingGroupName="g",
        LaunchTemplate__LaunchTemplateId="lt-9",
        LaunchTemplate__Version=version,
    )
    assert context(operation)["autoscaling:LaunchTemplateVersionSpecified"] == (exact,)


# https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2autoscaling.html
def test_types_are_those_of_overrides_with_a_template_or_without():
    world = SmallWorld(templates={"lt-1": TEMPLATE})
    own = f"{MIXED}LaunchTemplateSpecification__LaunchTemplateId"
    first, second = (f"{MIXED}Overrides__member__{number}__" for number in (1, 2))
    types = {f"{first}InstanceType": "m7i.large", f"{second}InstanceType": "c7i.large"}
    by_attributes = {f"{first}InstanceRequirements__VCpuCount__Min": "96"}
    template = {
        "LaunchTemplate__LaunchTemplateId": "lt-1",
        "LaunchTemplate__Version": "1",
    }
    for asking, named, specified in (
        ({own: "lt-1", **types}, ("m7i.large", "c7i.large"), True),
        (types, ("m7i.large", "c7i.large"), False),
        ({own: "lt-1", **by_attributes}, None, True),
        (by_attributes, None, False),
        (template, None, True),
        ({"MaxSize": "5"}, None, False),
    ):
        operation = query(
            "autoscaling", "UpdateAutoScalingGroup", AutoScalingGroupName="g", **asking
        )
        found = context(operation, world)
        assert found.get("autoscaling:InstanceTypes") == named
        assert ("autoscaling:LaunchTemplateVersionSpecified" in found) is specified
    # Other actions carry none of these keys, whatever is in the request.
    for name in ("SetDesiredCapacity", "PutScalingPolicy"):
        operation = query("autoscaling", name, AutoScalingGroupName="g", MaxSize="5", **types)
        assert not any(key.startswith("autoscaling:") for key in context(operation, world))


def test_each_type_of_a_group_is_tried():
    world = SmallWorld(templates={"lt-1": TEMPLATE})
    types = {
        f"{MIXED}Overrides__member__{number}__InstanceType": one
        for number, one in ((1, "c7i.large"), (2, "g5.xlarge"))
    }
    operation = query(
        "autoscaling",
        "CreateAutoScalingGroup",
        AutoScalingGroupName="g",
        **{f"{MIXED}LaunchTemplateSpecification__LaunchTemplateId": "lt-1"},
        **types,
    )
    tried = [
        context_of(need, {}).get("ec2:InstanceType")
        for need in needs_of(operation, world)
        if need.kind == "instance" and need.action == "ec2:RunInstances"
    ]
    assert tried == [("c7i.large",), ("g5.xlarge",)]


def test_numbers_of_a_group_need_the_group_alone():
    arn = f"{GROUP}4f:autoScalingGroupName/g"
    world = SmallWorld(groups={"g": (arn, {"w": "a"})}, members={"i-1": "g"})
    for operation in (
        query("autoscaling", "UpdateAutoScalingGroup", AutoScalingGroupName="g", MaxSize="5"),
        query("autoscaling", "SetDesiredCapacity", AutoScalingGroupName="g", DesiredCapacity="5"),
        query(
            "autoscaling",
            "TerminateInstanceInAutoScalingGroup",
            InstanceId="i-1",
            ShouldDecrementDesiredCapacity="true",
        ),
        query(
            "autoscaling",
            "CreateOrUpdateTags",
            Tags__member__1__ResourceId="g",
            Tags__member__1__Key="k",
            Tags__member__1__Value="v",
        ),
    ):
        assert asked(operation, world) == [(f"autoscaling:{operation.name}", arn)]
        assert context(operation, world)["aws:ResourceTag/w"] == ("a",)


def test_an_instance_of_no_group_is_no_groups():
    operation = query("autoscaling", "TerminateInstanceInAutoScalingGroup", InstanceId="i-9")
    assert asked(operation) == [
        ("autoscaling:TerminateInstanceInAutoScalingGroup", f"{GROUP}*:autoScalingGroupName/*")
    ]


# https://docs.aws.amazon.com/autoscaling/ec2/userguide/using-systems-manager-parameters.html
@pytest.mark.parametrize(
    ("image", "parameter"),
    [
        ("resolve:ssm:/aws/service/ami/latest", f"{REGION}::parameter/aws/service/ami/latest"),
        ("resolve:ssm:golden:3", f"{REGION}:{ACCOUNT}:parameter/golden"),
    ],
)
def test_an_image_that_a_parameter_names_is_read_in_the_callers_name(image, parameter):
    world = SmallWorld(templates={"lt-1": {**TEMPLATE, "ImageId": image}})
    operation = query("ec2", "RunInstances", LaunchTemplate__LaunchTemplateId="lt-1")
    found = asked(operation, world)
    assert ("ssm:GetParameters", f"arn:aws:ssm:{parameter}") in found
    assert not any("image/" in resource for _, resource in found)
