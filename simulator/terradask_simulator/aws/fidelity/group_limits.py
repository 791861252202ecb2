"""A group's numbers obey its limits, and unknown names get AWS's errors.

moto accepts a desired capacity above the maximum or below the minimum, counts to -1, answers an
unknown group with an HTTP 500, forgets a group's mixed-instances policy at an update that doesn't
repeat it, and deletes a group with instances without ``ForceDelete``.
"""

from __future__ import annotations

from typing import Any

from terradask_simulator.aws.backend import BELL, now_text
from terradask_simulator.aws.fidelity.group_activities import record, record_end, remember_end
from terradask_simulator.aws.fidelity.group_numbers import change_desired, error, existing_group
from terradask_simulator.aws.fidelity.group_schedules import drop_actions

__all__ = ["install"]


def install() -> None:
    """Replace moto's checks, or their absence."""
    from moto.autoscaling.models import AutoScalingBackend, FakeAutoScalingGroup

    create = AutoScalingBackend.create_auto_scaling_group
    change = FakeAutoScalingGroup.update

    def create_auto_scaling_group(backend: Any, name: str, **kwargs: Any) -> Any:
        if name in backend.autoscaling_groups:
            raise error(
                (
                    "AutoScalingGroup by this name already exists - A group already exists with "
                    "the "
                    f"name {name}"
                ),
                "AlreadyExists",
            )
        _check_between(kwargs["desired_capacity"], kwargs["min_size"], kwargs["max_size"])
        return create(backend, name, **kwargs)

    def update(group: Any, **kwargs: Any) -> None:
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
                f"{high}, "
                f"desired: {desired}"
            ),
        )

    AutoScalingBackend.create_auto_scaling_group = create_auto_scaling_group
    AutoScalingBackend.set_desired_capacity = _set_desired_capacity
    AutoScalingBackend.terminate_instance = _terminate_instance
    AutoScalingBackend.set_instance_protection = _set_instance_protection
    AutoScalingBackend.delete_auto_scaling_group = _delete_auto_scaling_group
    AutoScalingBackend.notify_terminate_instances = _notify
    FakeAutoScalingGroup.update = update
    FakeAutoScalingGroup.set_desired_capacity = _set_number


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
    group = existing_group(backend, group_name)
    if desired_capacity is None:
        raise error(
            "1 validation error detected: Value null at 'desiredCapacity' failed to satisfy "
            "constraint"
        )
    if desired_capacity > group.max_size:
        raise error(
            f"New SetDesiredCapacity value {desired_capacity} is above max value "
            f"{group.max_size} "
            "for the AutoScalingGroup."
        )
    if desired_capacity < group.min_size:
        raise error(
            f"New SetDesiredCapacity value {desired_capacity} is below min value "
            f"{group.min_size} "
            "for the AutoScalingGroup."
        )
    change_desired(group, desired_capacity, "a user request explicitly set group desired capacity")


def _terminate_instance(backend: Any, instance_id: str, should_decrement: bool) -> dict[str, Any]:
    for group in backend.autoscaling_groups.values():
        for state in group.instance_states:
            if state.instance.id == instance_id:
                return _take_out(group, state, should_decrement)
    raise error(f"Instance Id not found - No managed instance found for instance ID: {instance_id}")


def _take_out(group: Any, state: Any, should_decrement: bool) -> dict[str, Any]:
    before = group.desired_capacity
    if should_decrement and before <= group.min_size:
        raise error(
            f"Currently, desiredSize equals minSize ({group.min_size}). Terminating instance "
            "without replacement "
            "will violate group's min size constraint. Either set shouldDecrementDesiredCapacity "
            "flag to false or "
            "lower group's min size."
        )
    instance = state.instance
    cause = (
        f"At {now_text()} instance {instance.id} was taken out of service in response to a "
        "user request"
    )
    if should_decrement:
        group.desired_capacity = before - 1
        cause += f", shrinking the capacity from {before} to {before - 1}"
    group.instance_states = [one for one in group.instance_states if one is not state]
    group.ec2_backend.terminate_instances([instance.id])
    activity = record_end(group, instance, cause + ".")
    BELL.set()
    return {**activity, "StatusCode": "InProgress", "Progress": 0}


def _set_instance_protection(
    backend: Any, group_name: str, instance_ids: list[str], protected_from_scale_in: bool | None
) -> None:
    group = existing_group(backend, group_name)
    if len(instance_ids) > 50:
        raise error(
            "1 validation error detected: Value at 'instanceIds' failed to satisfy constraint: "
            "Member must have "
            "length less than or equal to 50"
        )
    states = {state.instance.id: state for state in group.instance_states}
    for instance_id in instance_ids:
        if instance_id not in states:
            raise error(
                f"The instance {instance_id} is not part of Auto Scaling group {group_name}."
            )
    for instance_id in instance_ids:
        states[instance_id].protected_from_scale_in = bool(protected_from_scale_in)
    BELL.set()


def _delete_auto_scaling_group(backend: Any, group_name: str, force: bool = False) -> None:
    if group_name not in backend.autoscaling_groups:
        raise error(f"AutoScalingGroup name not found - AutoScalingGroup '{group_name}' not found")
    group = backend.autoscaling_groups[group_name]
    if group.instance_states and not force:
        raise error(
            (
                "You cannot delete an AutoScalingGroup while there are instances or pending Spot "
                "instance request(s) still in the group."
            ),
            "ResourceInUse",
        )
    ids = [state.instance.id for state in group.instance_states]
    group.instance_states = []
    group.desired_capacity = 0
    if ids:
        group.ec2_backend.terminate_instances(ids)
    for instance_id in ids:
        record(
            group,
            f"Terminating EC2 instance: {instance_id}",
            f"At {now_text()} a user request force deleted AutoScalingGroup.",
        )
    backend.autoscaling_groups.pop(group_name)
    drop_actions(backend, group_name)
    remember_end(group)
    BELL.set()


def _notify(backend: Any, instance_ids: list[str]) -> None:
    """Wake the loop, which sees what ended and replaces it; moto would launch within the caller's
    request.
    """
    BELL.set()
