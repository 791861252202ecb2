"""Record scaling activities with cause and failure, and remove members of groups at once or as
slowly as on AWS (``linger_terminating``).

moto's DescribeScalingActivities always returns an empty list, so that clients lack the reason for a
failed launch.
"""

from __future__ import annotations

import json
import uuid
from collections import deque
from collections.abc import Sequence
from typing import Any

from terradask_simulator.aws.backend import now_text
from terradask_simulator.aws.fidelity.group_numbers import is_deleted
from terradask_simulator.aws.fidelity.slow_instances import is_still_listed, keep_listed

__all__ = [
    "TERMINATING",
    "activities_of",
    "activity_of",
    "end_members",
    "finish",
    "forget_ended",
    "forget_group",
    "record",
]

TERMINATING = "Terminating"

#: The number of activities that are kept for a group. AWS (asg-six-weeks)
_KEPT = 5000

_UNHEALTHY = "Instance became unhealthy while waiting for instance to be in InService state."


def activities_of(backend: Any) -> dict[str, deque[dict[str, Any]]]:
    """Return the activities of a region's groups by group name, newest first; deleted groups
    included.
    """
    return backend.__dict__.setdefault("_embedded_activities", {})


def record(
    group: Any,
    description: str,
    cause: str,
    *,
    failure: str | None = None,
    goes_on: Any = None,
    subnet_id: str = "",
    zone: str = "",
) -> dict[str, Any]:
    """Record one activity of a group and return it as DescribeScalingActivities shows it.

    The activity is in progress until `finish` if `goes_on` is an instance of moto's; without a
    `failure` it is successful.
    """
    from moto.core.utils import utcnow

    at = utcnow()
    activity: dict[str, Any] = {
        "ActivityId": str(uuid.uuid4()),
        "AutoScalingGroupName": group.name,
        "AutoScalingGroupARN": group.arn,
        "Description": description,
        "Cause": cause,
        "StartTime": at,
        "Details": json.dumps({"Subnet ID": subnet_id, "Availability Zone": zone}),
    }
    if goes_on is not None:
        goes_on._embedded_activity = activity
        activity.update(StatusCode="InProgress", Progress=0)
    else:
        activity.update(StatusCode="Failed" if failure else "Successful", Progress=100, EndTime=at)
    if failure:
        activity["StatusMessage"] = failure
    kept = activities_of(group.autoscaling_backend).setdefault(group.name, deque(maxlen=_KEPT))
    kept.appendleft(activity)
    return activity


def finish(instance: Any, status: str = "Successful") -> None:
    """Complete the activity in progress of an instance, if any."""
    from moto.core.utils import utcnow

    activity = instance.__dict__.pop("_embedded_activity", None)
    if activity is not None:
        activity.update(StatusCode=status, Progress=100, EndTime=utcnow())


def activity_of(instance: Any) -> dict[str, Any] | None:
    """Return the activity in progress of an instance."""
    return instance.__dict__.get("_embedded_activity")


def _cancel(instance: Any, reason: str | None) -> None:
    activity = activity_of(instance)
    finish(instance, "Cancelled")
    if activity is not None and reason:
        # https://github.com/gruntwork-io/terratest/pull/693
        text = f"{_UNHEALTHY} Termination Reason: {reason}"
        activity["Description"] += f".  Status Reason: {text}"
        activity["StatusMessage"] = text


def end_members(
    group: Any,
    states: Sequence[Any],
    cause: str,
    *,
    reason: str | None = None,
    warm: bool = False,
) -> list[dict[str, Any]]:
    """End members of a group, or instances of its pool, and return the activities, which are in
    progress until `finish`, or complete. Launches in progress are cancelled; the reason is EC2's.
    """
    activities = []
    for state in states:
        instance = state.instance
        _cancel(instance, reason)
        activity = record(
            group,
            # The text: https://github.com/hashicorp/nomad-autoscaler/pull/1151
            f"Terminating EC2 instance{' from warm pool' if warm else ''}: {instance.id}",
            cause,
            goes_on=instance if keep_listed(state) else None,
            subnet_id=instance.subnet_id or "",
            zone=instance.placement.zone or "",
        )
        activities.append(activity)
    gone = {state.instance.id for state in states if state.lifecycle_state != TERMINATING}
    group.instance_states = [one for one in group.instance_states if one.instance.id not in gone]
    ending = [
        state.instance.id
        for state in states
        if state.instance.state not in ("shutting-down", "terminated")
    ]
    if ending:
        group.ec2_backend.terminate_instances(ending)
    return activities


def forget_ended(group: Any) -> None:
    """Remove members that have been listed long enough."""
    gone = [
        state
        for state in group.instance_states
        if state.lifecycle_state == TERMINATING and not is_still_listed(state)
    ]
    if gone:
        group.instance_states = [one for one in group.instance_states if one not in gone]
        for state in gone:
            finish(state.instance)
    if is_deleted(group) and not group.instance_states:
        forget_group(group)


def forget_group(group: Any) -> None:
    """Remove a deleted group without members."""
    if group.autoscaling_backend.autoscaling_groups.get(group.name) is group:
        del group.autoscaling_backend.autoscaling_groups[group.name]
        # They are listed only on request.
        for activity in activities_of(group.autoscaling_backend).get(group.name, ()):
            activity.setdefault("AutoScalingGroupState", f"Deleted {now_text()}")
