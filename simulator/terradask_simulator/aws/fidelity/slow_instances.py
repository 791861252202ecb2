"""Instances that take their time to run, to show and to end, or never run, once that is switched
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

EC2 is eventually consistent: for a while after its launch DescribeInstances and
DescribeAutoScalingGroups leave an instance out, and a call that names it gets
``InvalidInstanceID.NotFound``, TerminateInstances too, which "does not mean that the instance is or
will be terminated": https://docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable
from typing import Any

from terradask_simulator.aws.backend import BELL
from terradask_simulator.aws.fidelity.clock import is_forgotten
from terradask_simulator.aws.fidelity.lookups import index_of
from terradask_simulator.aws.fidelity.patching import around
from terradask_simulator.aws.switchboard import Setting

__all__ = [
    "DELAYS",
    "DOOM",
    "LAG",
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
#: The longest time for which new instances stay hidden.
LAG = Setting(seconds=0.0, seed=0)


class _Between:
    """Instances between two states."""

    #: Whether a call that looks is being served: nothing is hidden from the simulator itself.
    describing = False

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
    """Let a new instance be pending and hidden as long as it is to be, or end."""
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
    if LAG.seconds:
        instance._embedded_shown_at = time.monotonic() + LAG.draws.uniform(0.0, LAG.seconds)


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


def is_hidden(instance: Any) -> bool:
    """Return whether descriptions leave an instance out now."""
    return is_forgotten(instance) or (
        bool(LAG.seconds) and bool(getattr(instance, "_embedded_shown_at", 0.0) > time.monotonic())
    )


def install() -> None:
    """Let TerminateInstances begin an end, instead of being one, and answers leave hidden instances
    out.
    """
    from moto.autoscaling.models import AutoScalingBackend
    from moto.autoscaling.responses import AutoScalingResponse
    from moto.ec2.models import EC2Backend
    from moto.ec2.models.instances import InstanceBackend
    from moto.ec2.responses.instances import InstanceResponse

    @around(InstanceBackend, "terminate_instances")
    def terminate_instances(terminate: Any, backend: Any, instance_ids: list[str]) -> Any:
        if not LINGER.seconds or not instance_ids:
            return terminate(backend, instance_ids)
        instances = backend.get_multi_instances_by_id(instance_ids)
        if any(one.disable_api_termination is True for one in instances):
            return terminate(backend, instance_ids)
        return [(one, _begin_end(one)) for one in instances]

    @around(AutoScalingBackend, "describe_auto_scaling_groups")
    def shown_groups(describe: Any, backend: Any, *args: Any, **kwargs: Any) -> list[Any]:
        groups: list[Any] = describe(backend, *args, **kwargs)
        return [_shown_group(group) for group in groups] if _BETWEEN.describing else groups

    @around(EC2Backend, "describe_instances")
    def describe_instances(describe: Any, backend: Any, *args: Any, **kwargs: Any) -> list[Any]:
        return [
            shown
            for each in describe(backend, *args, **kwargs)
            if (shown := _shown_reservation(each)).instances
        ]

    @around(EC2Backend, "get_reservations_by_instance_ids")
    def get_reservations(
        get: Any, backend: Any, instance_ids: list[str], *args: Any, **kwargs: Any
    ) -> list[Any]:
        _refuse_hidden(backend, instance_ids)
        return list(get(backend, instance_ids, *args, **kwargs))

    @around(InstanceResponse, "terminate_instances")
    def answer_end(terminate: Any, response: Any) -> Any:
        _refuse_hidden(response.ec2_backend, response._get_param("InstanceIds", []))
        return terminate(response)

    @around(AutoScalingResponse, "describe_auto_scaling_groups")
    def described(describe: Any, response: Any) -> Any:
        _BETWEEN.describing = True
        try:
            return describe(response)
        finally:
            _BETWEEN.describing = False


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


def _shown_group(group: Any) -> Any:
    if not any(is_hidden(state.instance) for state in group.instance_states):
        return group
    shown = copy.copy(group)
    shown.instance_states = [
        state for state in group.instance_states if not is_hidden(state.instance)
    ]
    return shown


def _shown_reservation(reservation: Any) -> Any:
    shown = copy.copy(reservation)
    shown.instances = [instance for instance in reservation.instances if not is_hidden(instance)]
    return shown


def _refuse_hidden(backend: Any, instance_ids: Iterable[str]) -> None:
    from moto.ec2.exceptions import InvalidInstanceIdError

    known = index_of(backend)
    hidden = [one for one in instance_ids if one in known and is_hidden(known[one])]
    if hidden:
        raise InvalidInstanceIdError(hidden)
