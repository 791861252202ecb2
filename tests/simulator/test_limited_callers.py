"""Who holds `terradask iam user` with limits works within them, and not beyond, whatever program
asks: settings of one's own, a client of boto3's, the scheduler's role from inside a task.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from terradask_modules.caller_policies import CallerLimits, CallerScope, caller_policies
from terradask_modules.policies import PolicyScope
from terradask_modules.where import Where
from terradask_simulator import Simulator

from ..command import in_this_process
from ..left_over import leftovers
from ..quick_provider import QuickProvider
from ..waiting import PROCESS_SECONDS
from . import acting
from .acting import ACCOUNT, REGION, Account, host

pytestmark = [pytest.mark.simulator, pytest.mark.slow]

#: As with ``--max-workers 3 --types 'm*.large' --types 'm*.xlarge' --no-gpu``.
LIMITS = CallerLimits(max_workers=3, types=("m*.large", "m*.xlarge"), gpus=False)
NAME = "bounded"
GROUP = f"terradask-default-{NAME}-workers"
SETTINGS = f"""
[clusters.{NAME}]
max_workers = {{max_workers}}
n_workers = 1
worker_vm_types = ["{{worker_type}}"]
scheduler_vm_types = ["m7i.large"]
"""
LIFE = f"""
from terradask import Cluster
with Cluster("{NAME}", shutdown_on_close=True) as cluster, cluster.get_client() as client:
    assert client.submit(sum, [1, 2, 3]).result() == 6
    cluster.scale(3)
    cluster.wait_for_workers(3, timeout=600)
    cluster.scale(1)
"""


@pytest.fixture(scope="module")
def limited(sim: Simulator) -> dict[str, str]:
    """The environment of who holds the policies."""
    place = Where(partition="aws", region=REGION, account=ACCOUNT, workspace="default")
    scope = CallerScope(hosts=PolicyScope(where=place), session_manager=True, limits=LIMITS)
    return sim.environ_of("limited", *caller_policies(scope, "user", name="limited").values())


@pytest.fixture
def clients() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture
def mine(sim: Simulator, limited: dict[str, str], clients: contextlib.ExitStack) -> Account:
    return Account(sim, limited, clients)


@pytest.fixture
def owner(sim: Simulator, clients: contextlib.ExitStack) -> Account:
    return Account(sim, sim.environ, clients)


def asked(owner: Account, *types: str, **sizes: int) -> dict[str, Any]:
    """Return a request for a group of the workspace's template, in its subnets."""
    ec2 = owner.client("ec2")
    named = [{"Name": "tag:terradask:workspace", "Values": ["default"]}]
    subnets = [one["SubnetId"] for one in ec2.describe_subnets(Filters=named)["Subnets"]]
    tags = {"terradask:workspace": "default", "terradask:cluster": NAME}
    return {
        "AutoScalingGroupName": GROUP,
        "MinSize": 0,
        **sizes,
        "VPCZoneIdentifier": subnets[0],
        "Tags": [{"Key": key, "Value": tags[key], "PropagateAtLaunch": True} for key in tags],
        "MixedInstancesPolicy": mixed(*types),
    }


def named_group() -> dict[str, Any]:
    return {"AutoScalingGroupName": GROUP}


def mixed(*types: str) -> dict[str, Any]:
    template = {"LaunchTemplateName": "terradask-default-worker", "Version": "1"}
    overrides = [{"InstanceType": one} for one in types]
    return {
        "LaunchTemplate": {"LaunchTemplateSpecification": template, "Overrides": overrides},
    }


def test_a_client_of_ones_own_makes_and_changes_no_group_beyond_them(
    sim: Simulator, mine: Account, owner: Account, clients: contextlib.ExitStack
) -> None:
    groups, named = mine.client("autoscaling"), {"AutoScalingGroupName": GROUP}
    for beyond in (
        asked(owner, "m7i.large", MaxSize=4),
        asked(owner, "c7i.large", MaxSize=3),
        asked(owner, "m7i.large", "g5.xlarge", MaxSize=3),
        asked(owner, MaxSize=3),
    ):
        message = acting.refused(groups.create_auto_scaling_group, **beyond)
        assert "is not authorized to perform: autoscaling:CreateAutoScalingGroup" in message
    plain = asked(owner, MaxSize=3)
    template = plain.pop("MixedInstancesPolicy")["LaunchTemplate"]["LaunchTemplateSpecification"]
    assert acting.refused(groups.create_auto_scaling_group, **plain, LaunchTemplate=template)
    whole = asked(owner, "m7i.large", "m7i.xlarge", MaxSize=2)
    # In no list of clusters, and no sum.
    for tag in whole["Tags"]:
        others = [other for other in whole["Tags"] if other is not tag]
        for tags in (others, [*others, {**tag, "Key": tag["Key"].title()}]):
            assert acting.refused(groups.create_auto_scaling_group, **{**whole, "Tags": tags})
    groups.create_auto_scaling_group(**whole)
    clients.callback(groups.delete_auto_scaling_group, **named, ForceDelete=True)
    change = groups.update_auto_scaling_group
    change(**named, MaxSize=3)
    change(**named, MinSize=0, MaxSize=3, MixedInstancesPolicy=mixed("m7i.large"))
    for beyond in (
        {"MaxSize": 4},
        {"MinSize": 0, "MaxSize": 50, "DesiredCapacity": 50},
        {"MixedInstancesPolicy": mixed("p5.48xlarge")},
        {"MixedInstancesPolicy": mixed("m7i.large", "c7i.large")},
        {"LaunchTemplate": template},
    ):
        message = acting.refused(change, **named, **beyond)
        assert "is not authorized to perform: autoscaling:UpdateAutoScalingGroup" in message
    # The number has no key: the group's own maximum holds it, for the caller as for a task.
    task = host(owner, sim, clients, "terradask-default-scheduler").client("autoscaling")
    for caller in (groups, task):
        code = acting.code_of(caller.set_desired_capacity, **named, DesiredCapacity=4)
        assert code == "ValidationError"
    for beyond in ({"MaxSize": 4}, {"MixedInstancesPolicy": mixed("m7i.large")}):
        assert acting.refused(task.update_auto_scaling_group, **named, **beyond)
    assert acting.refused(task.create_auto_scaling_group, **asked(owner, "m7i.large", MaxSize=1))


def test_no_other_call_makes_a_group_larger_or_of_other_types(
    mine: Account, owner: Account, clients: contextlib.ExitStack
) -> None:
    groups, ec2, named = mine.client("autoscaling"), mine.client("ec2"), named_group()
    groups.create_auto_scaling_group(**asked(owner, "m7i.large", MaxSize=2))
    clients.callback(groups.delete_auto_scaling_group, **named, ForceDelete=True)
    instance = "i-0123456789abcdef0"
    template = {"LaunchTemplateName": "terradask-default-worker"}
    role = f"arn:aws:iam::{ACCOUNT}:role/limited"
    calls: list[tuple[Any, dict[str, Any]]] = [
        (
            groups.put_scheduled_update_group_action,
            {**named, "ScheduledActionName": "x", "StartTime": "2030-01-01", "MaxSize": 50},
        ),
        (
            groups.batch_put_scheduled_update_group_action,
            {
                **named,
                "ScheduledUpdateGroupActions": [
                    {"ScheduledActionName": "x", "StartTime": "2030-01-01", "MaxSize": 50}
                ],
            },
        ),
        (
            groups.start_instance_refresh,
            {**named, "DesiredConfiguration": {"MixedInstancesPolicy": mixed("p5.48xlarge")}},
        ),
        # A pool may be larger than its group's maximum, and its hosts may run.
        (groups.put_warm_pool, {**named, "MaxGroupPreparedCapacity": 50, "PoolState": "Running"}),
        (groups.attach_instances, {**named, "InstanceIds": [instance]}),
        (
            groups.create_launch_configuration,
            {"LaunchConfigurationName": "x", "ImageId": "ami-0", "InstanceType": "p5.48xlarge"},
        ),
        (
            groups.create_auto_scaling_group,
            {"AutoScalingGroupName": f"{GROUP}-2", "MinSize": 0, "MaxSize": 1}
            | {"InstanceId": instance},
        ),
        (
            groups.create_or_update_tags,
            {
                "Tags": [
                    {
                        "ResourceId": GROUP,
                        "ResourceType": "auto-scaling-group",
                        "Key": "terradask:cluster",
                        "Value": "another",
                        "PropagateAtLaunch": True,
                    }
                ]
            },
        ),
        (
            ec2.create_launch_template_version,
            {**template, "LaunchTemplateData": {"InstanceType": "p5.48xlarge"}},
        ),
        (ec2.modify_launch_template, {**template, "DefaultVersion": "1"}),
        (
            ec2.create_fleet,
            {
                "LaunchTemplateConfigs": [
                    {"LaunchTemplateSpecification": {**template, "Version": "1"}}
                ],
                "TargetCapacitySpecification": {"TotalTargetCapacity": 9},
            },
        ),
        (ec2.request_spot_instances, {"LaunchSpecification": {"ImageId": "ami-0"}}),
        (
            ec2.request_spot_fleet,
            {"SpotFleetRequestConfig": {"IamFleetRole": role, "TargetCapacity": 9}},
        ),
        (
            ec2.modify_instance_attribute,
            {"InstanceId": instance, "InstanceType": {"Value": "p5.48xlarge"}},
        ),
        (
            ec2.create_capacity_reservation,
            {"InstanceType": "p5.48xlarge", "InstanceCount": 9, "InstancePlatform": "Linux/UNIX"},
        ),
    ]
    for call, parameters in calls:
        assert acting.refused(call, **parameters), call.__name__


@pytest.mark.parametrize("instance_type", ["c7i.large", "g5.xlarge", "m7i.24xlarge"])
def test_no_machine_of_another_type_is_launched(mine: Account, instance_type: str) -> None:
    message = acting.refused(
        mine.client("ec2").run_instances,
        LaunchTemplate={"LaunchTemplateName": "terradask-default-worker"},
        InstanceType=instance_type,
        MinCount=1,
        MaxCount=1,
    )
    assert "is not authorized to perform: ec2:RunInstances" in message
    assert ":instance/*" in message


@pytest.mark.life
def test_the_life_of_a_cluster_within_them_and_none_beyond(
    sim: Simulator, limited: dict[str, str], quick_provider: QuickProvider, tmp_path: Path
) -> None:
    quick_provider.lock(tmp_path)

    def terradask(*arguments: str) -> subprocess.CompletedProcess[str]:
        return in_this_process(*arguments, environ=limited, folder=tmp_path)

    def settings(max_workers: int, worker_type: str, *more: str) -> None:
        text = SETTINGS.format(max_workers=max_workers, worker_type=worker_type)
        (tmp_path / "terradask.toml").write_text("\n".join([text, *more]))

    def refused(call: str) -> str:
        done = terradask("apply", NAME, "--yes")
        assert done.returncode == 3, done.stdout + done.stderr
        told = " ".join(done.stderr.split())
        assert f"AWS refuses autoscaling:{call}" in told
        assert "--max-workers" in told
        return told

    def finished(*arguments: str) -> str:
        done = terradask(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    try:
        for max_workers, worker_type in ((4, "m7i.large"), (3, "c7i.large")):
            settings(max_workers, worker_type)
            refused("CreateAutoScalingGroup")
            finished("destroy", NAME, "--yes")
        settings(3, "m7i.large", "standby = 1")
        assert "leave out standby" in refused("PutLifecycleHook")
        finished("destroy", NAME, "--yes")
        sim.reset_calls()
        settings(3, "m7i.large")
        finished("apply", NAME, "--yes")
        done = subprocess.run(
            [sys.executable, "-c", LIFE],
            cwd=tmp_path,
            env=limited,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=PROCESS_SECONDS,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert json.loads(finished("status", NAME, "--json"))["state"] == "stopped"
        # Nothing was refused, but ending hosts that had left their group.
        logged = sim.requests().get(f"arn:aws:iam::{ACCOUNT}:role/limited", ())
        assert [
            one.request.action
            for one in logged
            if not one.allowed and not one.request.resource.endswith("autoScalingGroupName/*")
        ] == []
        # The same group, changed by settings.
        settings(2, "m7i.xlarge")
        finished("apply", NAME, "--yes")
        for max_workers, worker_type in ((4, "m7i.xlarge"), (2, "c7i.large")):
            settings(max_workers, worker_type)
            refused("UpdateAutoScalingGroup")
    finally:
        finished("destroy", NAME, "--yes")
    with sim.applied():
        assert leftovers("default", cluster=NAME) == []
