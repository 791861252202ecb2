"""Launches that EC2 ends before their instance runs, once that is switched on.

RunInstances succeeds, and the instance goes from ``pending`` to ``terminated``: a volume beyond a
quota, a key that its volume can't use. Reasons:
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/troubleshooting-launch.html
"""

from __future__ import annotations

from typing import Any, ClassVar

from terradask_simulator.aws.backend import BELL

__all__ = ["current_reason", "doom", "end_doomed", "set_reason"]


class _State:
    reason = ""
    doomed: ClassVar[list[Any]] = []


def current_reason() -> str:
    """Return why launches end now; nothing where they don't."""
    return _State.reason


def set_reason(reason: str) -> str:
    """Let instances that are launched from now on end so; return how it was before."""
    before, _State.reason = _State.reason, reason
    return before


def doom(instance: Any) -> None:
    """Have a new instance never run, where that is switched on."""
    if _State.reason:
        instance._state.name, instance._state.code = "pending", 0
        instance._embedded_end_reason = _State.reason
        _State.doomed.append(instance)
        BELL.set()


def end_doomed() -> None:
    """End the instances that are never to run; call it with the lock held."""
    from moto.ec2.models.instances import StateReason

    doomed, _State.doomed = _State.doomed, []
    for instance in doomed:
        if instance.state == "pending":
            text = instance._embedded_end_reason
            instance.terminate()
            instance.state_reason = StateReason(text, text.partition(":")[0])
