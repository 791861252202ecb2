"""A task with its scheduler's credentials, or an administrator by hand, changes the limits of a
cluster's groups, and what is scheduled for them, so that they never come to zero.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator
from typing import Any

import pytest

from terradask import Deployment, Workspace
from terradask_simulator import Simulator

from ..command import in_this_process
from ..left_over import leftovers
from ..simulator.acting import Account, host, refused
from ..waiting import eventually

pytestmark = [pytest.mark.simulator, pytest.mark.slow]

NAME = "besieged"
WORKERS, SCHEDULER = (f"terradask-default-{NAME}-{group}" for group in ("workers", "scheduler"))


@pytest.fixture(scope="module")
def deployment(sim_environ: dict[str, str]) -> Iterator[Deployment]:
    workspace = Workspace.load()
    yield workspace.apply(workspace.plan_cluster(NAME, max_workers=3))
    if Deployment(workspace.aws, workspace.bucket, NAME).exists:
        workspace.destroy_cluster(NAME)


@pytest.fixture
def owner(sim: Simulator) -> Iterator[Account]:
    with contextlib.ExitStack() as stack:
        yield Account(sim, sim.environ, stack)


@pytest.fixture
def task(sim: Simulator, owner: Account) -> Iterator[Any]:
    """Auto Scaling, as a task on the scheduler's host has it."""
    with contextlib.ExitStack() as stack:
        yield host(owner, sim, stack, "terradask-default-scheduler").client("autoscaling")


def in_an_hour() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)


def numbers(owner: Account) -> set[tuple[int, int, int]]:
    """Return minimum, desired capacity and hosts of the cluster's groups."""
    found = owner.client("autoscaling").describe_auto_scaling_groups(
        AutoScalingGroupNames=[WORKERS, SCHEDULER]
    )
    return {
        (one["MinSize"], one["DesiredCapacity"], len(one["Instances"]))
        for one in found["AutoScalingGroups"]
    }


def scheduled(owner: Account) -> list[str]:
    found = owner.client("autoscaling").describe_scheduled_actions()
    return [
        one["ScheduledActionName"]
        for one in found["ScheduledUpdateGroupActions"]
        if one["AutoScalingGroupName"] in (WORKERS, SCHEDULER)
    ]


def raise_by_hand(owner: Account) -> None:
    """Raise all limits of the workers' group, now and in an hour, as an administrator may."""
    groups = owner.client("autoscaling")
    groups.update_auto_scaling_group(
        AutoScalingGroupName=WORKERS, MinSize=1, MaxSize=7, DesiredCapacity=1
    )
    groups.put_scheduled_update_group_action(
        AutoScalingGroupName=WORKERS,
        ScheduledActionName="nightly",
        StartTime=in_an_hour(),
        MinSize=2,
    )
    eventually(lambda: (1, 1, 1) in numbers(owner))


def test_a_task_changes_no_limit(task: Any, owner: Account, deployment: Deployment) -> None:
    later = {"AutoScalingGroupName": WORKERS, "ScheduledActionName": "x", "StartTime": in_an_hour()}
    put = task.put_scheduled_update_group_action
    for limit in ({"MinSize": 3}, {"MaxSize": 7}, {"MinSize": 0, "MaxSize": 7}):
        message = refused(put, **later, **limit)
        assert "not authorized to perform: autoscaling:PutScheduledUpdateGroupAction" in message
    assert refused(
        task.batch_put_scheduled_update_group_action,
        AutoScalingGroupName=WORKERS,
        ScheduledUpdateGroupActions=[{"ScheduledActionName": "x", "MinSize": 3}],
    )
    assert refused(task.update_auto_scaling_group, AutoScalingGroupName=WORKERS, MinSize=3)
    assert scheduled(owner) == []
    assert numbers(owner) == {(0, 0, 0)}
    # The watchdog's own action is allowed.
    put(**later, MinSize=0, DesiredCapacity=0)


def test_what_a_task_schedules_goes_at_the_stop(
    sim: Simulator,
    policies: dict[str, list[dict[str, Any]]],
    task: Any,
    owner: Account,
    deployment: Deployment,
) -> None:
    for number, group in enumerate((WORKERS, SCHEDULER)):
        task.put_scheduled_update_group_action(
            AutoScalingGroupName=group,
            ScheduledActionName=f"again-{number}",
            StartTime=in_an_hour(),
            DesiredCapacity=1,
        )
    with sim.acting_as("user", *policies["user"]):
        Workspace.load().deployment(NAME).stop()
    assert scheduled(owner) == []


def test_the_watchdog_brings_a_raised_minimum_to_zero(
    owner: Account, deployment: Deployment
) -> None:
    raise_by_hand(owner)
    deployment.groups.set_watchdog(minutes=1 / 60)
    eventually(lambda: numbers(owner) == {(0, 0, 0)})


@pytest.mark.parametrize(("caller", "verb"), [("user", "stop"), ("ongoing", "destroy")])
def test_a_minimum_raised_by_hand_ends_at_zero(
    sim: Simulator,
    policies: dict[str, list[dict[str, Any]]],
    owner: Account,
    deployment: Deployment,
    caller: str,
    verb: str,
) -> None:
    raise_by_hand(owner)
    answer = ["--yes"] if verb == "destroy" else []
    done = in_this_process(verb, NAME, *answer, environ=sim.environ_of(caller, *policies[caller]))
    assert done.returncode == 0, done.stdout + done.stderr
    assert scheduled(owner) == []
    if verb == "stop":
        eventually(lambda: numbers(owner) == {(0, 0, 0)})
    else:
        assert numbers(owner) == set()
        assert leftovers("default", cluster=NAME) == []
