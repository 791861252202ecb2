"""Find groups by name, set their desired capacity, and make Auto Scaling's errors."""

from __future__ import annotations

from typing import Any

from terradask_simulator.aws.backend import BELL, now_text

__all__ = [
    "change_desired",
    "changeable_group",
    "error",
    "existing_group",
    "group_of",
    "is_deleted",
]


def error(text: str, code: str = "ValidationError") -> Exception:
    """Return one of Auto Scaling's errors."""
    from moto.autoscaling.exceptions import AutoscalingClientError

    return AutoscalingClientError(code, text)


def existing_group(backend: Any, name: str) -> Any:
    """Return a group by name, or raise AWS's error."""
    if name not in backend.autoscaling_groups:
        raise error("AutoScalingGroup name not found - null")
    return backend.autoscaling_groups[name]


def is_deleted(group: Any) -> bool:
    """Return whether a group is deleted and listed only until its last member has ended."""
    return bool(getattr(group, "status", None))


def changeable_group(backend: Any, name: str) -> Any:
    """Return a group by name, or raise AWS's error, also for a group that is being deleted."""
    group = existing_group(backend, name)
    if is_deleted(group):
        # https://github.com/kubernetes/kops/issues/1001
        raise error("The AutoScaling group may not be modified while it is pending delete")
    return group


def group_of(response: Any, *, to_change: bool = False) -> Any:
    """Return the group that a request names, or raise AWS's error."""
    find = changeable_group if to_change else existing_group
    return find(response.autoscaling_backend, response._get_param("AutoScalingGroupName"))


def change_desired(group: Any, desired: int, why: str) -> None:
    """Set a group's desired capacity and its cause, and wake the reconcile loop."""
    before = getattr(group, "desired_capacity", None) or 0
    group.desired_capacity = desired
    if desired != before:
        group._embedded_cause = (
            f"At {now_text()} {why} changing the desired capacity from {before} to {desired}."
        )
        group._embedded_retry_at = 0.0
    BELL.set()
