"""The edge to Auto Scaling, against moto's: exact removals, zero that always works, one describe
for all groups.
"""

import boto3
import pytest

from terradask._aws.autoscaling import Groups
from terradask._aws.groups import ProtectAndLower, TerminateEach, removal
from terradask._cleanup.resources import Owner
from terradask._cleanup.search import find_groups_and_secret

from ..moto_account import moto_account

ETL = {"workspace": "default", "cluster": "etl"}
TAGS = [
    {"Key": "terradask:workspace", "Value": "default"},
    {"Key": "terradask:cluster", "Value": "etl"},
]


class OneRegion:
    """The part of `Aws` that groups are read through."""

    def client(self, name):
        return boto3.client(name, region_name="us-east-1")


@pytest.fixture
def groups():
    with moto_account():
        ec2 = boto3.client("ec2", region_name="us-east-1")
        subnet = ec2.describe_subnets()["Subnets"][0]["SubnetId"]
        ec2.create_launch_template(
            LaunchTemplateName="worker",
            LaunchTemplateData={"ImageId": "ami-0123456789abcdef0", "InstanceType": "m5.large"},
        )
        autoscaling = boto3.client("autoscaling", region_name="us-east-1")
        for name in ("terradask-default-etl-scheduler", "terradask-default-etl-workers"):
            autoscaling.create_auto_scaling_group(
                AutoScalingGroupName=name,
                LaunchTemplate={"LaunchTemplateName": "worker", "Version": "1"},
                MinSize=0,
                MaxSize=200,
                VPCZoneIdentifier=subnet,
                Tags=TAGS,
            )
        yield Groups(OneRegion(), ("scheduler", "workers"), **ETL)


def _ids(groups):
    return groups.describe()["workers"].active_ids


def test_both_groups_in_one_call(groups):
    groups.set_desired("scheduler", 1)
    groups.set_desired("workers", 3)
    state = groups.describe()
    assert {name: (g.desired, len(g.active_ids), g.max_size) for name, g in state.items()} == {
        "scheduler": (1, 1, 200),
        "workers": (3, 3, 200),
    }


def test_groups_that_are_gone_are_left_out(groups):
    boto3.client("autoscaling", region_name="us-east-1").delete_auto_scaling_group(
        AutoScalingGroupName="terradask-default-etl-workers", ForceDelete=True
    )
    assert list(groups.describe()) == ["scheduler"]


def test_groups_without_a_descriptor_are_found_by_their_tags(groups):
    autoscaling = boto3.client("autoscaling", region_name="us-east-1")
    subnet = boto3.client("ec2", region_name="us-east-1").describe_subnets()["Subnets"][0][
        "SubnetId"
    ]
    # The names of two clusters, and of two workspaces, may begin alike; and not everything with the
    # tags is ours.
    for workspace, cluster, name in (
        ("default", "etl", "terradask-default-etl-workers-spot"),
        ("default", "etl-2", "terradask-default-etl-2-workers"),
        ("other", "etl", "terradask-other-etl-workers"),
        ("default", "etl", "somebody-elses"),
    ):
        autoscaling.create_auto_scaling_group(
            AutoScalingGroupName=name,
            LaunchTemplate={"LaunchTemplateName": "worker", "Version": "1"},
            MinSize=0,
            MaxSize=5,
            DesiredCapacity=2,
            VPCZoneIdentifier=subnet,
            Tags=[
                {"Key": "terradask:workspace", "Value": workspace},
                {"Key": "terradask:cluster", "Value": cluster},
            ],
        )
    found, state = Groups.found(OneRegion(), workspace="default", cluster="etl")
    assert {name: group.desired for name, group in state.items()} == {
        "scheduler": 0,
        "workers": 0,
        "workers-spot": 2,
    }
    found.zero(state)
    assert {name: group.desired for name, group in found.describe().items()} == {
        "scheduler": 0,
        "workers": 0,
        "workers-spot": 0,
    }
    left = find_groups_and_secret(OneRegion(), Owner("default", "etl-2"))
    assert {address: group.description["DesiredCapacity"] for address, group in left.items()} == {
        "aws_autoscaling_group.workers": 2
    }


@pytest.mark.parametrize(
    ("leaving", "kind"), [(slice(0, 2), TerminateEach), (slice(2, 60), ProtectAndLower)]
)
def test_exactly_the_chosen_leave(groups, leaving, kind):
    groups.set_desired("workers", 60)
    members = _ids(groups)
    victims = members[leaving]
    how = removal(members, victims)
    assert isinstance(how, kind)
    groups.protect("workers", getattr(how, "survivors", ()))
    groups.remove("workers", how, pytest.fail)
    state = groups.describe()["workers"]
    assert set(state.active_ids) == set(members) - set(victims)
    assert state.desired == len(members) - len(victims)
    assert not any(m.protected for m in state.members)


class ChoosesLate:
    """An AWS that takes a smaller number at once, and ends whom nobody protects two looks later."""

    def __init__(self):
        self.members, self.protected, self.desired, self.limiter = (
            ["i-1", "i-2", "i-3", "i-4", "i-5"],
            set(),
            5,
            0,
        )

    def client(self, name):
        return self

    def set_instance_protection(self, InstanceIds, ProtectedFromScaleIn, **_):  # noqa: N803 (AWS's words)
        (self.protected.update if ProtectedFromScaleIn else self.protected.difference_update)(
            InstanceIds
        )

    def set_desired_capacity(self, DesiredCapacity, **_):  # noqa: N803 (AWS's words)
        self.desired = DesiredCapacity

    def describe_auto_scaling_groups(self, **_):
        self.limiter += 1
        if self.limiter == 4:
            chosen = [one for one in self.members if one not in self.protected][
                : len(self.members) - self.desired
            ]
            self.members = [one for one in self.members if one not in chosen]
        told = {"LifecycleState": "InService"}
        members = [
            {**told, "InstanceId": one, "ProtectedFromScaleIn": one in self.protected}
            for one in self.members
        ]
        group = {
            "AutoScalingGroupName": "terradask-default-etl-workers",
            "Tags": TAGS,
            "DesiredCapacity": self.desired,
            "MaxSize": 9,
            "Instances": members,
        }
        return {"AutoScalingGroups": [group]}


def test_survivors_are_protected_until_aws_has_chosen():
    aws, pauses = ChoosesLate(), []
    how = ProtectAndLower(survivors=("i-1", "i-2"), desired=2)
    groups = Groups(aws, ("workers",), **ETL)
    groups.protect("workers", how.survivors)
    groups.remove("workers", how, lambda: pauses.append(aws.protected.copy()))
    assert (aws.members, aws.protected) == (["i-1", "i-2"], set())
    assert pauses == [{"i-1", "i-2"}] * 2


def test_zero_works_although_a_removal_was_cut_off_after_protecting(groups):
    groups.set_desired("scheduler", 1)
    groups.set_desired("workers", 4)
    boto3.client("autoscaling", region_name="us-east-1").set_instance_protection(
        AutoScalingGroupName="terradask-default-etl-workers",
        InstanceIds=list(_ids(groups)[:3]),
        ProtectedFromScaleIn=True,
    )
    groups.zero()
    assert {name: (g.desired, g.active_ids) for name, g in groups.describe().items()} == {
        "scheduler": (0, ()),
        "workers": (0, ()),
    }


def test_tags_reach_instances_launched_from_then_on(groups):
    groups.tag({"terradask:run:id": "r1"})
    groups.set_desired("workers", 1)
    (instance,) = boto3.client("ec2", region_name="us-east-1").describe_instances(
        InstanceIds=list(_ids(groups))
    )["Reservations"]
    assert {"Key": "terradask:run:id", "Value": "r1"} in instance["Instances"][0]["Tags"]
