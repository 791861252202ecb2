"""How members leave their group: at once, or as slowly as on AWS (``linger_terminating``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from terradask_simulator.aws.fidelity.group_activities import finish, record_end, remember_end
from terradask_simulator.aws.fidelity.group_numbers import is_deleted
from terradask_simulator.aws.fidelity.lingering import keep_listed, lingers

__all__ = ["TERMINATING", "end_members", "forget_ended", "forget_group"]

TERMINATING = "Terminating"


def end_members(
    group: Any, states: Sequence[Any], cause: str, *, reason: str | None = None
) -> list[dict[str, Any]]:
    """End members of a group and their instances, and return the activities.

    The reason is EC2's for a launch that was still going on.
    """
    activities = [
        record_end(group, state.instance, cause, reason=reason, goes_on=keep_listed(state))
        for state in states
    ]
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
    """Leave out members that have been listed long enough."""
    gone = [
        state
        for state in group.instance_states
        if state.lifecycle_state == TERMINATING and not lingers(state)
    ]
    if gone:
        group.instance_states = [one for one in group.instance_states if one not in gone]
        for state in gone:
            finish(state.instance)
    if is_deleted(group) and not group.instance_states:
        forget_group(group)


def forget_group(group: Any) -> None:
    """Remove a deleted group that has no member any more."""
    if group.autoscaling_backend.autoscaling_groups.get(group.name) is group:
        del group.autoscaling_backend.autoscaling_groups[group.name]
        remember_end(group)
