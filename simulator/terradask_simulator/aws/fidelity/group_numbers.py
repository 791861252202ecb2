"""Groups by their name, their desired capacity, and Auto Scaling's errors."""

from __future__ import annotations

from typing import Any

from terradask_simulator.aws.backend import BELL, now_text

__all__ = ["change_desired", "error", "existing_group"]


def error(text: str, code: str = "ValidationError") -> Exception:
    """Return one of Auto Scaling's errors."""
    from moto.autoscaling.exceptions import AutoscalingClientError

    made: Exception = AutoscalingClientError(code, text)
    return made


def existing_group(backend: Any, name: str) -> Any:
    """Return a group by name, or raise what AWS raises."""
    if name not in backend.autoscaling_groups:
        raise error("AutoScalingGroup name not found - null")
    return backend.autoscaling_groups[name]


def change_desired(group: Any, desired: int, why: str) -> None:
    """Set a group's number, remember why, and wake the loop that launches and ends instances."""
    before = getattr(group, "desired_capacity", None) or 0
    group.desired_capacity = desired
    if desired != before:
        group._embedded_cause = (
            f"At {now_text()} {why} changing the desired capacity from {before} to {desired}."
        )
        group._embedded_retry_at = 0.0
    BELL.set()
