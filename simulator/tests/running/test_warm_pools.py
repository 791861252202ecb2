"""Warm pools and lifecycle hooks of the embedded AWS, as AWS documents them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.quick_provider import QuickProvider
from tests.waiting import PROCESS_SECONDS, eventually

from terradask._terraform.binary import find_terraform

from .host_metadata import Imds, metadata_of
from .own_groups import failed
from .test_groups import refused

pytestmark = pytest.mark.simulator

HOOK = "terradask-prepared"
LAUNCHING = "autoscaling:EC2_INSTANCE_LAUNCHING"

#: It counts its boots on its disk, and writes what it is to become.
HOST_THAT_COUNTS = """
import json, os, pathlib, time, urllib.request
root = pathlib.Path(os.environ["TERRADASK_HOST_ROOT"])
imds = os.environ["AWS_EC2_METADATA_SERVICE_ENDPOINT"]
ttl = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
put = urllib.request.Request(imds + "/latest/api/token", method="PUT", headers=ttl)
shown = {"X-aws-ec2-metadata-token": urllib.request.urlopen(put).read().decode()}
path = imds + "/latest/meta-data/autoscaling/target-lifecycle-state"
target = urllib.request.urlopen(urllib.request.Request(path, headers=shown)).read().decode()
boots = root / "var/boots.json"
before = json.loads(boots.read_text()) if boots.is_file() else []
(root / "run/key").write_text("secret")
part = boots.with_suffix(".part")
part.write_text(json.dumps([*before, target]))
part.rename(boots)
time.sleep(600)
"""


#: A group as terradask's stacks make it, with a pool or without one.
CONFIGURATION = """
terraform {
  required_providers {
    aws = { source = "hashicorp/aws" }
  }
}
provider "aws" {}
variable "kept" { type = number }
resource "aws_autoscaling_group" "workers" {
  name                = "by-terraform"
  min_size            = 0
  max_size            = 4
  vpc_zone_identifier = ["%(subnet)s"]
  force_delete        = true
  lifecycle { ignore_changes = [desired_capacity] }
  mixed_instances_policy {
    instances_distribution { on_demand_percentage_above_base_capacity = 100 }
    launch_template {
      launch_template_specification {
        launch_template_id = "%(template)s"
        version            = "1"
      }
      override { instance_type = "m7i.large" }
      override { instance_type = "m6i.large" }
    }
  }
  initial_lifecycle_hook {
    name                 = "%(hook)s"
    lifecycle_transition = "autoscaling:EC2_INSTANCE_LAUNCHING"
    default_result       = "CONTINUE"
    heartbeat_timeout    = 1800
  }
  dynamic "warm_pool" {
    for_each = var.kept == 0 ? [] : [var.kept]
    content {
      pool_state                  = "Stopped"
      min_size                    = warm_pool.value
      max_group_prepared_capacity = warm_pool.value
    }
  }
}
"""


def hook(network: Any, group: str, **settings: Any) -> None:
    network.autoscaling.put_lifecycle_hook(
        LifecycleHookName=HOOK,
        AutoScalingGroupName=group,
        **{"LifecycleTransition": LAUNCHING, "DefaultResult": "CONTINUE", **settings},
    )


def pool(network: Any, group: str, size: int, **settings: Any) -> None:
    network.autoscaling.put_warm_pool(
        AutoScalingGroupName=group, MinSize=size, MaxGroupPreparedCapacity=size, **settings
    )


def kept(network: Any, group: str) -> dict[str, str]:
    """Return the states of a pool's instances by their id."""
    found = network.autoscaling.describe_warm_pool(AutoScalingGroupName=group)["Instances"]
    return {one["InstanceId"]: one["LifecycleState"] for one in found}


def holds(network: Any, group: str, *states: str) -> list[str]:
    """Wait until a pool has instances in these states alone, and return their ids."""
    eventually(lambda: sorted(kept(network, group).values()) == sorted(states))
    return list(kept(network, group))


def waits(network: Any, group: str, state: str) -> None:
    """Wait until a group's first member is in a state."""
    eventually(lambda: network.describe(group)["Instances"][0]["LifecycleState"] == state)


def complete(network: Any, group: str, instance_id: str, result: str = "CONTINUE") -> None:
    network.autoscaling.complete_lifecycle_action(
        LifecycleHookName=HOOK,
        AutoScalingGroupName=group,
        InstanceId=instance_id,
        LifecycleActionResult=result,
    )


def states(network: Any, ids: list[str]) -> set[str]:
    return {one["State"]["Name"] for one in network.instances(ids)}


def test_a_pool_is_filled_stopped_drawn_from_and_filled_again(network, make):
    group = make("m7i.large", "m6i.large", MaxSize=10)
    pool(network, group, 2)
    ids = holds(network, group, "Warmed:Stopped", "Warmed:Stopped")
    assert states(network, ids) == {"stopped"}
    described = network.describe(group)
    assert described["Instances"] == []
    assert described["WarmPoolSize"] == 2
    assert described["WarmPoolConfiguration"] == {
        "MinSize": 2,
        "MaxGroupPreparedCapacity": 2,
        "PoolState": "Stopped",
    }
    listed = network.autoscaling.describe_auto_scaling_instances(InstanceIds=ids)
    assert {one["LifecycleState"] for one in listed["AutoScalingInstances"]} == {"Warmed:Stopped"}
    before = {one["InstanceId"]: one for one in network.instances(ids)}

    members = network.scaled(group, 3)
    assert set(ids) < set(members)
    eventually(lambda: states(network, members) == {"running"})
    for one in network.instances(ids):
        was = before[one["InstanceId"]]
        assert one["PrivateIpAddress"] == was["PrivateIpAddress"]
        assert one["BlockDeviceMappings"] == was["BlockDeviceMappings"]
        assert one["LaunchTime"] >= was["LaunchTime"]
    new = holds(network, group, "Warmed:Stopped", "Warmed:Stopped")
    assert not set(new) & set(ids)
    texts = [one["Description"].partition(": i-")[0] for one in network.activities(group)]
    assert texts.count("Launching a new EC2 instance into warm pool") == 4
    assert texts.count("Launching a new EC2 instance from warm pool") == 2
    assert texts.count("Launching a new EC2 instance") == 1

    # On scale-in, members end; the pool keeps its size.
    network.scaled(group, 0)
    assert holds(network, group, "Warmed:Stopped", "Warmed:Stopped") == new


@pytest.mark.parametrize(
    ("settings", "desired", "size"),
    [
        ({}, 1, 3),
        ({"MinSize": 1}, 4, 1),
        ({"MaxGroupPreparedCapacity": 2}, 1, 1),
        ({"MaxGroupPreparedCapacity": 0, "MinSize": 0}, 0, 0),
        ({"MaxGroupPreparedCapacity": 2, "MinSize": 2}, 1, 2),
    ],
)
def test_a_pools_size_is_what_aws_documents(network, make, settings, desired, size):
    group = make("m7i.large", MaxSize=4)
    network.scaled(group, desired)
    network.autoscaling.put_warm_pool(AutoScalingGroupName=group, **settings)
    eventually(lambda: list(kept(network, group).values()) == ["Warmed:Stopped"] * size)
    # A further pass changes nothing.
    pool_before = kept(network, group)
    network.autoscaling.put_warm_pool(AutoScalingGroupName=group, PoolState="Stopped")
    assert kept(network, group) == pool_before


def test_instances_wait_for_the_hook_when_they_enter_the_pool_and_when_they_leave_it(network, make):
    group = make("m7i.large")
    hook(network, group)
    pool(network, group, 1)
    (one,) = holds(network, group, "Warmed:Pending:Wait")
    assert states(network, [one]) == {"running"}
    complete(network, group, one)
    holds(network, group, "Warmed:Stopped")
    assert refused(
        network.autoscaling.complete_lifecycle_action,
        LifecycleHookName=HOOK,
        AutoScalingGroupName=group,
        InstanceId=one,
        LifecycleActionResult="CONTINUE",
    ) == ("ValidationError", f"No active Lifecycle Action found with instance ID {one}")
    assert network.scaled(group, 1) == [one]
    waits(network, group, "Pending:Wait")
    complete(network, group, one)
    waits(network, group, "InService")


def test_a_hook_without_an_answer_ends_by_its_time_and_its_default(network, make):
    going_on, abandoned = make("m7i.large"), make("m7i.large")
    hook(network, going_on, HeartbeatTimeout=600)
    hook(network, abandoned, HeartbeatTimeout=600, DefaultResult="ABANDON")
    pool(network, going_on, 1)
    pool(network, abandoned, 1)
    (kept_one,) = holds(network, going_on, "Warmed:Pending:Wait")
    (first,) = holds(network, abandoned, "Warmed:Pending:Wait")
    with network.sim.skew_clock(400, refusing=False):
        network.autoscaling.record_lifecycle_action_heartbeat(
            LifecycleHookName=HOOK, AutoScalingGroupName=abandoned, InstanceId=first
        )
    with network.sim.skew_clock(700, refusing=False):
        assert holds(network, going_on, "Warmed:Stopped") == [kept_one]
        assert kept(network, abandoned) == {first: "Warmed:Pending:Wait"}
    with network.sim.skew_clock(1001, refusing=False):
        eventually(lambda: states(network, [first]) == {"terminated"})
        eventually(lambda: kept(network, abandoned) and first not in kept(network, abandoned))


def test_an_abandoned_launch_ends_its_instance_and_is_repeated(network, make):
    group = make("m7i.large")
    hook(network, group)
    (first,) = network.scaled(group, 1)
    waits(network, group, "Pending:Wait")
    complete(network, group, first, "ABANDON")
    eventually(lambda: states(network, [first]) == {"terminated"})
    eventually(lambda: network.members(group) and first not in network.members(group))


def test_a_prepared_instance_that_ends_is_replaced(network, make):
    group = make("m7i.large")
    pool(network, group, 1)
    (first,) = holds(network, group, "Warmed:Stopped")
    network.ec2.terminate_instances(InstanceIds=[first])
    eventually(lambda: kept(network, group).keys() - {first})
    holds(network, group, "Warmed:Stopped")


def test_a_pool_shrinks_and_is_deleted_with_its_instances(network, make):
    group = make("m7i.large")
    call = network.autoscaling.delete_warm_pool
    assert refused(call, AutoScalingGroupName=group) == (
        "ValidationError",
        f"No warm pool found for Auto Scaling group {group}",
    )
    pool(network, group, 3)
    ids = holds(network, group, *["Warmed:Stopped"] * 3)
    pool(network, group, 1)
    holds(network, group, "Warmed:Stopped")
    assert refused(call, AutoScalingGroupName=group)[0] == "ResourceInUse"
    call(AutoScalingGroupName=group, ForceDelete=True)
    eventually(
        lambda: (
            "WarmPoolConfiguration"
            not in network.autoscaling.describe_warm_pool(AutoScalingGroupName=group)
        )
    )
    assert states(network, ids) == {"terminated"}
    assert "WarmPoolConfiguration" not in network.describe(group)


def test_a_group_is_deleted_with_its_pool_only_by_force(network, make):
    group = make("m7i.large")
    pool(network, group, 1)
    ids = holds(network, group, "Warmed:Stopped")
    delete = network.autoscaling.delete_auto_scaling_group
    assert refused(delete, AutoScalingGroupName=group)[0] == "ResourceInUse"
    delete(AutoScalingGroupName=group, ForceDelete=True)
    eventually(lambda: states(network, ids) == {"terminated"})


def test_a_group_on_spot_has_no_pool(network, make):
    group = make(market="spot")
    code, text = refused(network.autoscaling.put_warm_pool, AutoScalingGroupName=group, MinSize=1)
    assert code == "ValidationError"
    assert "Spot" in text


def test_a_group_with_a_pool_does_not_go_to_spot(network, make):
    group = make("m7i.large")
    pool(network, group, 1)
    policy = network.describe(group)["MixedInstancesPolicy"]
    policy["InstancesDistribution"]["OnDemandPercentageAboveBaseCapacity"] = 0
    change = network.autoscaling.update_auto_scaling_group
    code, text = refused(change, AutoScalingGroupName=group, MixedInstancesPolicy=policy, MaxSize=7)
    assert code == "ValidationError"
    assert "Spot" in text
    described = network.describe(group)
    assert described["MaxSize"] == 20
    distribution = described["MixedInstancesPolicy"]["InstancesDistribution"]
    assert distribution["OnDemandPercentageAboveBaseCapacity"] == 100


def test_calls_for_members_refuse_instances_of_a_pool(network, make):
    group = make("m7i.large")
    pool(network, group, 1)
    (one,) = holds(network, group, "Warmed:Stopped")
    end = network.autoscaling.terminate_instance_in_auto_scaling_group
    assert refused(end, InstanceId=one, ShouldDecrementDesiredCapacity=False)[0] == (
        "ValidationError"
    )
    protect = network.autoscaling.set_instance_protection
    assert (
        refused(protect, InstanceIds=[one], AutoScalingGroupName=group, ProtectedFromScaleIn=True)[
            0
        ]
        == "ValidationError"
    )


def test_without_capacity_a_prepared_instance_stays_and_another_type_comes(network, make):
    group = make("m7i.large", "m6i.large")
    pool(network, group, 1)
    (one,) = holds(network, group, "Warmed:Stopped")
    with network.sim.no_capacity("m7i.large"):
        (member,) = network.scaled(group, 1)
        assert member != one
        assert kept(network, group) == {one: "Warmed:Stopped"}
        assert "InsufficientInstanceCapacity" not in failed(network, group)[0]["Description"]
        assert "sufficient m7i.large capacity" in failed(network, group)[0]["StatusMessage"]


def test_a_machine_boots_again_from_its_own_disk(network):
    key, sha256 = network.wheel(HOST_THAT_COUNTS)
    group = network.group("boots-again", network.template(network.user_data(key, sha256)))
    hook(network, group)
    network.autoscaling.put_warm_pool(AutoScalingGroupName=group, MaxGroupPreparedCapacity=1)
    (one,) = holds(network, group, "Warmed:Pending:Wait")
    host = eventually(lambda: host_of(network, one))
    disk = Path(host.log_path).parent / "root"
    boots = disk / "var/boots.json"
    eventually(boots.is_file)
    assert json.loads(boots.read_text()) == ["Warmed:Stopped"]
    imds = Imds(metadata_of(host))
    assert imds.get("meta-data/autoscaling/target-lifecycle-state") == (200, "Warmed:Stopped")
    complete(network, group, one)
    eventually(lambda: host_of(network, one) is None)
    # What was in memory goes once all processes have ended, what was on the disk stays.
    eventually(lambda: not (disk / "run/key").exists())
    network.sim.reset_calls()
    network.want(group, 1)
    eventually(lambda: json.loads(boots.read_text()) == ["Warmed:Stopped", "InService"])
    assert network.sim.calls().get("s3:GetObject", 0) == 0
    assert eventually(lambda: host_of(network, one)).private_address == host.private_address


def host_of(network: Any, instance_id: str) -> Any:
    found = (host for host in network.sim.hosts() if host.instance_id == instance_id and host.pid)
    return next(found, None)


def test_terraform_makes_changes_and_removes_a_pool(
    network: Any, quick_provider: QuickProvider, tmp_path: Path
) -> None:
    names = {"subnet": network.subnets[0], "template": network.template(), "hook": HOOK}
    (tmp_path / "main.tf").write_text(CONFIGURATION % names)
    quick_provider.lock(tmp_path)
    environ = {**network.sim.environ, **quick_provider.environ}

    def terraform(*arguments: str, code: int = 0) -> None:
        done = subprocess.run(
            [*find_terraform(os.environ).command, *arguments, "-no-color", "-input=false"],
            cwd=tmp_path,
            env=environ,
            timeout=PROCESS_SECONDS,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout

    terraform("init")
    terraform("apply", "-auto-approve", "-var", "kept=2")
    ids = holds(network, "by-terraform", *["Warmed:Pending:Wait"] * 2)
    for one in ids:
        complete(network, "by-terraform", one)
    holds(network, "by-terraform", *["Warmed:Stopped"] * 2)
    # Instances that wait, start and leave the pool are no change of the configuration.
    network.want("by-terraform", 1)
    (member,) = network.reaches("by-terraform", 1)
    waits(network, "by-terraform", "Pending:Wait")
    complete(network, "by-terraform", member)
    terraform("plan", "-detailed-exitcode", "-var", "kept=2")
    terraform("plan", "-detailed-exitcode", "-var", "kept=3", code=2)
    network.want("by-terraform", 0)
    terraform("apply", "-auto-approve", "-var", "kept=0")
    assert kept(network, "by-terraform") == {}
    eventually(lambda: states(network, ids) == {"terminated"})
    terraform("plan", "-detailed-exitcode", "-var", "kept=0")
    terraform("apply", "-auto-approve", "-var", "kept=1")
    (one,) = holds(network, "by-terraform", "Warmed:Pending:Wait")
    terraform("destroy", "-auto-approve", "-var", "kept=1")
    eventually(lambda: states(network, [one]) == {"terminated"})
