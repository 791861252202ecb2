"""The edge to Auto Scaling, against moto's: zero that always works, one describe for all groups."""

from dataclasses import replace

import boto3
import pytest

from terradask._aws.autoscaling import Groups
from terradask._cleanup.search import find_groups_and_secret
from terradask.errors import AccessDenied

from ..moto_account import moto_account
from .cleanup.planted import place

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
    left = find_groups_and_secret(OneRegion(), place("default", "etl-2"))
    assert {address: group.description["DesiredCapacity"] for address, group in left.items()} == {
        "aws_autoscaling_group.workers": 2
    }


def test_zero_works_although_others_have_protected_hosts(groups):
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


BY_AWS, BY_CALLER = "AdministrativeSuspension at …", "User suspended at 2026-11-20T05:00:00Z"


def with_suspensions(groups, **reasons):
    name = "terradask-default-etl-workers"
    groups._client.suspend_processes(AutoScalingGroupName=name, ScalingProcesses=[*reasons])
    state = groups.describe()
    return {**state, "workers": replace(state["workers"], suspended=reasons)}


def test_what_aws_suspended_is_resumed_and_what_a_caller_did_is_not(groups):
    state = with_suspensions(groups, Launch=BY_AWS, Terminate=BY_CALLER, AZRebalance="")
    left = groups.resume(state)
    assert left["workers"].suspended == {"Terminate": BY_CALLER, "AZRebalance": ""}
    assert left["scheduler"] == state["scheduler"]
    assert groups.describe()["workers"].suspended.keys() == {"Terminate", "AZRebalance"}


def test_who_may_not_resume_starts_with_the_problem_told(groups, monkeypatch):
    def refused(**_):
        raise AccessDenied("autoscaling:ResumeProcesses", "no policy allows it")

    state = with_suspensions(groups, Launch=BY_AWS)
    client = OneRegion().client("autoscaling")
    client.resume_processes = refused
    monkeypatch.setattr(OneRegion, "client", lambda *_: client)
    assert groups.resume(state) == state
