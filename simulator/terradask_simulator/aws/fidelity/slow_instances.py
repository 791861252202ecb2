"""Instances that take their time to run, never do, or take their time to end, once that is switched
on.

moto's run and end at once. Times of launches and boots are drawn evenly between the smallest and
the largest of those published, with a seed:

- from the request to ``running``: 4.9 s, and 17.8 s (69 % of 25.8 s),
- from ``running`` to the first program of one's own: 3.1 s (12 % of 25.8 s), and 22.8 s (17.2 s +
  5.6 s).

Sources, in this order: https://www.daemonology.net/blog/2021-08-12-EC2-boot-time-benchmarking.html
(boot: the second figure), https://github.com/brevdev/ec2-coldboot-research.

Where EC2 ends a launch before its instance runs, RunInstances succeeds, and the instance goes from
``pending`` to ``terminated``: a volume beyond a quota, a key that its volume can't use. Reasons:
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/troubleshooting-launch.html

At its end an instance is ``shutting-down`` first, and keeps its volumes and interfaces; its group
lists it as ``Terminating``, after EC2 has called it ``terminated`` too. AWS gives no figures;
reports speak of minutes: https://github.com/hashicorp/terraform/pull/1353,
https://github.com/reproio/ecs_deploy/pull/72.
"""

from __future__ import annotations

import copy
import time
from typing import Any

from terradask_simulator.aws.backend import BELL
from terradask_simulator.aws.fidelity.patching import around
from terradask_simulator.aws.switchboard import Setting

__all__ = [
    "DELAYS",
    "DOOM",
    "LINGER",
    "begin",
    "booted",
    "draw_delays",
    "install",
    "keep_listed",
    "lingers",
    "move_on",
]

_LAUNCH_SECONDS = (4.9, 17.8)
_BOOT_SECONDS = (3.1, 22.8)

#: What the published times are multiplied by.
DELAYS = Setting(factor=0.0, seed=0)
#: Why launches end.
DOOM = Setting(reason="")
#: How long members of groups are listed after they were ended, half of it in EC2. Where it is
#: switched off, what was ending ends at once.
LINGER = Setting(seconds=0.0)


class _Between:
    """Instances between two states."""

    def __init__(self) -> None:
        self.pending: list[Any] = []
        self.doomed: list[Any] = []
        self.ending: list[Any] = []


_BETWEEN = _Between()


def draw_delays(delays: Setting) -> tuple[float, float]:
    """Return the seconds until another instance runs, and from then until it has booted."""
    return (
        delays.factor * delays.draws.uniform(*_LAUNCH_SECONDS),
        delays.factor * delays.draws.uniform(*_BOOT_SECONDS),
    )


def begin(instance: Any) -> None:
    """Let a new instance be pending as long as it is to be, or end."""
    if DELAYS.factor:
        launch_seconds, boot_seconds = draw_delays(DELAYS)
        instance._embedded_runs_at = time.monotonic() + launch_seconds
        instance._embedded_boots_at = instance._embedded_runs_at + boot_seconds
        _BETWEEN.pending.append(instance)
    if DOOM.reason:
        instance._embedded_end_reason = DOOM.reason
        _BETWEEN.doomed.append(instance)
        BELL.set()
    if DELAYS.factor or DOOM.reason:
        instance._state.name, instance._state.code = "pending", 0


def booted(instance: Any) -> bool:
    """Return whether an instance has had the time to boot."""
    return bool(getattr(instance, "_embedded_boots_at", 0.0) <= time.monotonic())


def keep_listed(state: Any) -> bool:
    """Have a group list a member as ``Terminating`` for a while; return whether that is on."""
    if LINGER.seconds:
        state.lifecycle_state = "Terminating"
        state._embedded_listed_until = time.monotonic() + LINGER.seconds
    return bool(LINGER.seconds)


def lingers(state: Any) -> bool:
    """Return whether a member that was ended is still listed."""
    return bool(LINGER.seconds) and state._embedded_listed_until > time.monotonic()


def install() -> None:
    """Let TerminateInstances begin an end, instead of being one."""
    from moto.ec2.models.instances import InstanceBackend

    @around(InstanceBackend, "terminate_instances")
    def terminate_instances(terminate: Any, backend: Any, instance_ids: list[str]) -> Any:
        if not LINGER.seconds or not instance_ids:
            return terminate(backend, instance_ids)
        instances = backend.get_multi_instances_by_id(instance_ids)
        if any(one.disable_api_termination is True for one in instances):
            return terminate(backend, instance_ids)
        return [(one, _begin_end(one)) for one in instances]


def _begin_end(instance: Any) -> Any:
    from moto.ec2.models.instances import StateReason

    before = copy.copy(instance._state)
    if instance.state not in ("shutting-down", "terminated"):
        instance._state.name, instance._state.code = "shutting-down", 32
        code = "Client.UserInitiatedShutdown"
        instance.state_reason = StateReason(f"{code}: User initiated shutdown", code)
        instance._embedded_ended_at = time.monotonic() + LINGER.seconds / 2
        _BETWEEN.ending.append(instance)
    return before


def move_on() -> None:
    """Let the instances run, and end, whose time has come; call it with the lock held."""
    _let_run()
    _let_end()
    _end_doomed()


def _let_run() -> None:
    now = time.monotonic()
    still = [instance for instance in _BETWEEN.pending if instance.state == "pending"]
    _BETWEEN.pending = [instance for instance in still if instance._embedded_runs_at > now]
    for instance in still:
        if instance._embedded_runs_at <= now:
            instance._state.name, instance._state.code = "running", 16
            BELL.set()


def _let_end() -> None:
    now = time.monotonic()
    due = [one for one in _BETWEEN.ending if not LINGER.seconds or one._embedded_ended_at <= now]
    _BETWEEN.ending = [one for one in _BETWEEN.ending if one not in due]
    for instance in due:
        # An end has its reason from its beginning on.
        kept = instance._reason, instance.state_reason
        instance.terminate()
        instance._reason, instance.state_reason = kept
        BELL.set()


def _end_doomed() -> None:
    from moto.ec2.models.instances import StateReason

    doomed, _BETWEEN.doomed = _BETWEEN.doomed, []
    for instance in doomed:
        if instance.state == "pending":
            text = instance._embedded_end_reason
            instance.terminate()
            instance.state_reason = StateReason(text, text.partition(":")[0])
