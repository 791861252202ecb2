"""Instances and members of groups that take their time to end, once that is switched on.

moto's end at once. On AWS an instance is ``shutting-down`` first, and keeps its volumes and
interfaces; its group lists it as ``Terminating``, after EC2 has called it ``terminated`` too. AWS
gives no figures; reports speak of minutes: https://github.com/hashicorp/terraform/pull/1353,
https://github.com/reproio/ecs_deploy/pull/72.
"""

from __future__ import annotations

import copy
import time
from typing import Any, ClassVar

from terradask_simulator.aws.backend import BELL

__all__ = ["current_linger", "install", "keep_listed", "let_end", "lingers", "set_linger"]


class _State:
    seconds = 0.0
    #: Instances that EC2 is shutting down.
    ending: ClassVar[list[Any]] = []


def current_linger() -> float:
    """Return how long members are listed after they were ended."""
    return _State.seconds


def set_linger(seconds: float) -> float:
    """Let what ends from now on take so long, half of it in EC2; return how long it was before.

    With 0 what was ending ends at once.
    """
    before, _State.seconds = _State.seconds, seconds
    return before


def keep_listed(state: Any) -> bool:
    """Have a group list a member as ``Terminating`` for a while; return whether that is on."""
    if _State.seconds:
        state.lifecycle_state = "Terminating"
        state._embedded_listed_until = time.monotonic() + _State.seconds
    return bool(_State.seconds)


def lingers(state: Any) -> bool:
    """Return whether a member that was ended is still listed."""
    return bool(_State.seconds) and state._embedded_listed_until > time.monotonic()


def install() -> None:
    """Let TerminateInstances begin an end, instead of being one."""
    from moto.ec2.models.instances import InstanceBackend

    terminate = InstanceBackend.terminate_instances

    def terminate_instances(backend: Any, instance_ids: list[str]) -> Any:
        if not _State.seconds or not instance_ids:
            return terminate(backend, instance_ids)
        instances = backend.get_multi_instances_by_id(instance_ids)
        if any(one.disable_api_termination is True for one in instances):
            return terminate(backend, instance_ids)
        return [(one, _begin(one)) for one in instances]

    InstanceBackend.terminate_instances = terminate_instances


def _begin(instance: Any) -> Any:
    from moto.ec2.models.instances import StateReason

    before = copy.copy(instance._state)
    if instance.state not in ("shutting-down", "terminated"):
        instance._state.name, instance._state.code = "shutting-down", 32
        code = "Client.UserInitiatedShutdown"
        instance.state_reason = StateReason(f"{code}: User initiated shutdown", code)
        instance._embedded_ended_at = time.monotonic() + _State.seconds / 2
        _State.ending.append(instance)
    return before


def let_end() -> None:
    """End the instances whose time has come; call it with the lock held."""
    now = time.monotonic()
    due = [one for one in _State.ending if not _State.seconds or one._embedded_ended_at <= now]
    _State.ending = [one for one in _State.ending if one not in due]
    for instance in due:
        # An end has its reason from its beginning on.
        kept = instance._reason, instance.state_reason
        instance.terminate()
        instance._reason, instance.state_reason = kept
        BELL.set()
