"""Check a group's capacity against its limits, and answer unknown names with AWS's errors.

moto accepts a desired capacity above the maximum or below the minimum, counts down to -1, answers
an unknown group with an HTTP 500, forgets a group's mixed-instances policy at an update that
doesn't repeat it, and deletes a group with instances without ``ForceDelete``.
"""

from __future__ import annotations

from typing import Any

from terradask_simulator.aws.backend import BELL, now_text
from terradask_simulator.aws.fidelity.group_activities import (
    TERMINATING,
    activity_of,
    end_members,
    forget_group,
)
from terradask_simulator.aws.fidelity.group_numbers import (
    change_desired,
    changeable_group,
    error,
    is_deleted,
)
from terradask_simulator.aws.fidelity.group_schedules import drop_actions
from terradask_simulator.aws.fidelity.group_zones import JOINING, warmed
from terradask_simulator.aws.fidelity.patching import around
from terradask_simulator.aws.fidelity.warm_pools import end_warmed

__all__ = ["install"]

_PROTECTABLE = ("InService", "EnteringStandby", "Standby")


def install() -> None:
    """Replace moto's checks, and add missing ones."""
    from moto.autoscaling.models import AutoScalingBackend, FakeAutoScalingGroup

    @around(AutoScalingBackend, "create_auto_scaling_group")
    def create_auto_scaling_group(create: Any, backend: Any, name: str, **kwargs: Any) -> Any:
        if name in backend.autoscaling_groups:
            raise error(_taken(backend.autoscaling_groups[name]), "AlreadyExists")
        _check_between(kwargs["desired_capacity"], kwargs["min_size"], kwargs["max_size"])
        return create(backend, name, **kwargs)

    @around(FakeAutoScalingGroup, "update")
    def update(change: Any, group: Any, **kwargs: Any) -> None:
        changeable_group(group.autoscaling_backend, group.name)
        low = group.min_size if kwargs["min_size"] is None else kwargs["min_size"]
        high = group.max_size if kwargs["max_size"] is None else kwargs["max_size"]
        desired = kwargs["desired_capacity"]
        _check_between(desired, low, high)
        if desired is None:
            desired = min(max(group.desired_capacity, low), high)
        policy, now = group.mixed_instances_policy, group.desired_capacity
        change(group, **{**kwargs, "desired_capacity": None})
        if not any(
            kwargs[name]
            for name in ("mixed_instances_policy", "launch_template", "launch_config_name")
        ):
            group.mixed_instances_policy = policy
        group.desired_capacity = now
        change_desired(
            group,
            desired,
            (
                f"a user request update of AutoScalingGroup constraints to min: {low}, max: "
                f"{high}, desired: {desired}"
            ),
        )

    AutoScalingBackend.set_desired_capacity = _set_desired_capacity
    AutoScalingBackend.terminate_instance = _terminate_instance
    AutoScalingBackend.set_instance_protection = _set_instance_protection
    AutoScalingBackend.delete_auto_scaling_group = _delete_auto_scaling_group
    AutoScalingBackend.notify_terminate_instances = _notify
    FakeAutoScalingGroup.set_desired_capacity = _set_number


def _taken(group: Any) -> str:
    text = "AutoScalingGroup by this name already exists - A group "
    if not is_deleted(group):
        return f"{text}already exists with the name {group.name}"
    # https://github.com/hashicorp/terraform/issues/1105
    return (
        f"{text}with the name {group.name} already exists and is pending delete.  Please wait "
        "until Autoscaling completes the deletion process before creating another group with the "
        "same name."
    )


def _check_between(desired: int | None, low: int | None, high: int | None) -> None:
    low, high = int(low or 0), int(high or 0)
    if low > high:
        raise error(f"Max bound, {high}, must be greater than or equal to min bound, {low}")
    if desired is not None and not low <= desired <= high:
        raise error(
            f"Desired capacity:{desired} must be between the specified min size:{low} and max "
            f"size:{high}"
        )


def _set_number(group: Any, new_capacity: int | None) -> None:
    desired = group.min_size if new_capacity is None else new_capacity
    change_desired(
        group, int(desired or 0), "a user request created or changed the AutoScalingGroup"
    )


def _set_desired_capacity(backend: Any, group_name: str, desired_capacity: int | None) -> None:
    group = changeable_group(backend, group_name)
    if desired_capacity is None:
        raise error(
            "1 validation error detected: Value null at 'desiredCapacity' failed to satisfy "
            "constraint"
        )
    new = f"New SetDesiredCapacity value {desired_capacity}"
    if desired_capacity > group.max_size:
        raise error(f"{new} is above max value {group.max_size} for the AutoScalingGroup.")
    if desired_capacity < group.min_size:
        raise error(f"{new} is below min value {group.min_size} for the AutoScalingGroup.")
    change_desired(group, desired_capacity, "a user request explicitly set group desired capacity")


def _terminate_instance(backend: Any, instance_id: str, should_decrement: bool) -> dict[str, Any]:
    for group in backend.autoscaling_groups.values():
        for state in group.instance_states:
            if state.instance.id == instance_id:
                return _take_out(group, state, should_decrement)
    raise error(f"Instance Id not found - No managed instance found for instance ID: {instance_id}")


def _take_out(group: Any, state: Any, should_decrement: bool) -> dict[str, Any]:
    before, instance = group.desired_capacity, state.instance
    changeable_group(group.autoscaling_backend, group.name)
    going_on = activity_of(instance)
    if state.lifecycle_state in JOINING and going_on is not None:
        # https://github.com/LeanerCloud/AutoSpotting/pull/371
        raise error(
            f"Scaling activity {going_on['ActivityId']} is in progress and blocks this action",
            "ScalingActivityInProgress",
        )
    if should_decrement and before <= group.min_size:
        raise error(
            f"Currently, desiredSize equals minSize ({group.min_size}). Terminating instance "
            "without replacement will violate group's min size constraint. Either set "
            "shouldDecrementDesiredCapacity flag to false or lower group's min size."
        )
    cause = (
        f"At {now_text()} instance {instance.id} was taken out of service in response to a "
        "user request"
    )
    if should_decrement:
        group.desired_capacity = before - 1
        cause += f", shrinking the capacity from {before} to {before - 1}"
    BELL.set()
    if state.lifecycle_state == TERMINATING and going_on is not None:
        # The capacity is lowered each time: https://github.com/kubernetes/autoscaler/issues/4095
        return going_on
    (activity,) = end_members(group, [state], cause + ".")
    return {**activity, "StatusCode": "InProgress", "Progress": 0}


def _set_instance_protection(
    backend: Any, group_name: str, instance_ids: list[str], protected_from_scale_in: bool | None
) -> None:
    group = changeable_group(backend, group_name)
    if len(instance_ids) > 50:
        raise error(
            "1 validation error detected: Value at 'instanceIds' failed to satisfy constraint: "
            "Member must have length less than or equal to 50"
        )
    states = {state.instance.id: state for state in group.instance_states}
    for instance_id in instance_ids:
        if instance_id not in states:
            raise error(
                f"The instance {instance_id} is not part of Auto Scaling group {group_name}."
            )
        if states[instance_id].lifecycle_state not in _PROTECTABLE:
            # https://github.com/guardian/riff-raff/pull/510 (terminating),
            # https://github.com/infrahouse/infrahouse-toolkit/issues/223 (pending)
            raise error(
                f"The instance {instance_id} is not in InService or EnteringStandby or Standby."
            )
    for instance_id in instance_ids:
        states[instance_id].protected_from_scale_in = bool(protected_from_scale_in)
    BELL.set()


def _delete_auto_scaling_group(backend: Any, group_name: str, force: bool = False) -> None:
    if group_name not in backend.autoscaling_groups:
        raise error(f"AutoScalingGroup name not found - AutoScalingGroup '{group_name}' not found")
    group = backend.autoscaling_groups[group_name]
    left = [one for one in group.instance_states if one.lifecycle_state != TERMINATING]
    if (left or warmed(group)) and not force:
        raise error(
            (
                "You cannot delete an AutoScalingGroup while there are instances or pending Spot "
                "instance request(s) still in the group."
            ),
            "ResourceInUse",
        )
    if group.instance_states and not force:
        # https://github.com/cloud-custodian/cloud-custodian/issues/1689
        raise error(
            "You cannot delete an AutoScalingGroup while there are scaling activities in progress "
            "for that group.",
            "ScalingActivityInProgress",
        )
    group.min_size = group.desired_capacity = 0
    cause = f"At {now_text()} a user request force deleted AutoScalingGroup."
    group.warm_pool = None
    end_warmed(group, list(warmed(group)), cause)
    end_members(group, left, cause)
    drop_actions(backend, group_name)
    if group.instance_states:
        group.status = "Delete in progress"
    else:
        forget_group(group)
    BELL.set()


def _notify(backend: Any, instance_ids: list[str]) -> None:
    """Wake the reconcile loop, which replaces ended instances; moto would launch during the
    caller's request.
    """
    BELL.set()
