"""Key scheduled actions by group, and run them.

moto keys scheduled actions by their name alone, so that a second group's action of the same name
replaces the first's; keeps them after their group is deleted; and never runs them.
"""

from __future__ import annotations

import datetime
from typing import Any

from terradask_simulator.aws.fidelity.clock import now as aws_now
from terradask_simulator.aws.fidelity.clock import parse_time
from terradask_simulator.aws.fidelity.group_numbers import change_desired, changeable_group, error

__all__ = ["drop_actions", "install", "run_due_actions"]


def install() -> None:
    """Replace moto's scheduled actions."""
    from moto.autoscaling.models import AutoScalingBackend

    AutoScalingBackend.put_scheduled_update_group_action = _put
    AutoScalingBackend.describe_scheduled_actions = _describe
    AutoScalingBackend.delete_scheduled_action = _delete


def _put(
    backend: Any,
    *,
    name: str,
    desired_capacity: Any,
    max_size: Any,
    min_size: Any,
    scheduled_action_name: str,
    start_time: Any,
    end_time: Any,
    recurrence: str | None,
    timezone: str | None,
) -> Any:
    from moto.autoscaling.models import FakeScheduledAction

    group = changeable_group(backend, name)
    if recurrence:
        raise error(
            "The embedded AWS does not run recurring scheduled actions: give a StartTime and no "
            "Recurrence, or try this on AWS"
        )
    desired, high, low = (
        None if value is None else int(value) for value in (desired_capacity, max_size, min_size)
    )
    if desired is None and high is None and low is None:
        raise error(
            "Valid requests must contain at least one of DesiredCapacity, MinSize or MaxSize"
        )
    if desired is not None and low is not None and desired < low:
        # https://github.com/buildkite/terraform-buildkite-elastic-ci-stack-for-aws/issues/139
        raise error("Desired capacity must be greater than or equal to min size")
    start, now = parse_time(start_time), aws_now()
    if start is not None and start < now - datetime.timedelta(seconds=1):
        raise error("Given start time is in the past")
    action = FakeScheduledAction(
        autos_caling_group_name=name,
        desired_capacity=desired,
        max_size=high,
        min_size=low,
        scheduled_action_name=scheduled_action_name,
        start_time=f"{start or now:%Y-%m-%dT%H:%M:%SZ}",
        end_time=end_time,
        recurrence=None,
        time_zone=timezone,
    )
    action.time = action.start_time
    action.scheduled_action_arn = (
        group.arn.replace(":autoScalingGroup:", ":scheduledUpdateGroupAction:")
        + f":scheduledActionName/{scheduled_action_name}"
    )
    action._embedded_due = start or now
    backend.scheduled_actions[(name, scheduled_action_name)] = action
    return action


def _describe(
    backend: Any,
    autoscaling_group_name: str | None = None,
    scheduled_action_names: list[str] | None = None,
) -> list[Any]:
    return [
        action
        for (group, name), action in backend.scheduled_actions.items()
        if (not autoscaling_group_name or group == autoscaling_group_name)
        and (not scheduled_action_names or name in scheduled_action_names)
    ]


def _delete(backend: Any, auto_scaling_group_name: str, scheduled_action_name: str) -> None:
    if (
        backend.scheduled_actions.pop((auto_scaling_group_name, scheduled_action_name), None)
        is None
    ):
        raise error("Scheduled action name not found")


def drop_actions(backend: Any, group_name: str) -> None:
    """Remove the scheduled actions of a group that was deleted."""
    for key in [key for key in backend.scheduled_actions if key[0] == group_name]:
        del backend.scheduled_actions[key]


def run_due_actions(backend: Any) -> None:
    """Run and remove the actions that are due."""
    now = aws_now()
    due = [
        (key, action)
        for key, action in backend.scheduled_actions.items()
        if action._embedded_due <= now
    ]
    for key, action in due:
        del backend.scheduled_actions[key]
        group = backend.autoscaling_groups.get(key[0])
        if group is None or "ScheduledActions" in group._suspended_processes:
            continue
        _run(group, action)


def _run(group: Any, action: Any) -> None:
    """Set a group's limits and capacity.

    AWS (documented): An Auto Scaling group's limits that a scheduled action doesn't name stay, and
    bound its capacity. https://docs.aws.amazon.com/autoscaling/ec2/userguide/asg-capacity-limits.html
    """
    low, high, desired = (
        getattr(group if getattr(action, name) is None else action, name)
        for name in ("min_size", "max_size", "desired_capacity")
    )
    if low > high:
        return
    group.min_size, group.max_size = low, high
    change_desired(
        group,
        min(max(desired, low), high),
        f"the scheduled action {action.scheduled_action_name} executed (due {action.start_time})",
    )
