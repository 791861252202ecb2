"""Delay, hide or fail launches, and slow down terminations, if switched on.

moto's instances run and terminate at once. Times of launches and boots are drawn uniformly, with a
seed, between the smallest and the largest published:

- from the request to ``running``: 4.9 s, and 17.8 s (69 % of 25.8 s),
- from ``running`` to the first user program: 3.1 s (12 % of 25.8 s), and 22.8 s (17.2 s + 5.6 s).

Sources, in this order: https://www.daemonology.net/blog/2021-08-12-EC2-boot-time-benchmarking.html
(boot: the second figure), https://github.com/brevdev/ec2-coldboot-research.

AWS (documented): An instance goes from ``pending`` to ``terminated``, though RunInstances
succeeded, for a volume beyond a quota or a key that its volume can't use.
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/troubleshooting-launch.html

A terminating instance is ``shutting-down`` first, and keeps its volumes and interfaces; its group
lists it as ``Terminating``, even after EC2 shows it as ``terminated``. AWS gives no figures;
reports mention minutes: https://github.com/hashicorp/terraform/pull/1353,
https://github.com/reproio/ecs_deploy/pull/72.

AWS (documented): EC2 is eventually consistent: for a while after its launch a call may omit an
instance, and one that names it gets ``InvalidInstanceID.NotFound``, also TerminateInstances, which
"does not mean that the instance is or will be terminated". https://docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html
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
    "LAG",
    "LAUNCH_FAILURE",
    "LINGER",
    "begin_launch",
    "booted",
    "draw_delays",
    "install",
    "is_still_listed",
    "keep_listed",
    "move_on",
]

_LAUNCH_SECONDS = (4.9, 17.8)
_BOOT_SECONDS = (3.1, 22.8)

#: Factor of the published times.
DELAYS = Setting(factor=0.0, seed=0)
#: Reason why new launches fail; empty: they succeed.
LAUNCH_FAILURE = Setting(reason="")
#: How long groups list terminated members; EC2 shows them as shutting down for half of it. Switched
#: off, pending terminations complete at once.
LINGER = Setting(seconds=0.0)
#: The longest time that new instances stay hidden.
LAG = Setting(seconds=0.0, seed=0)


class _Transitions:
    """Instances in transition between two states."""

    #: Whether a describing call is being served: nothing is hidden from the simulator itself.
    describing = False

    def __init__(self) -> None:
        self.pending: list[Any] = []
        self.failing: list[Any] = []
        self.ending: list[Any] = []


_TRANSITIONS = _Transitions()


def draw_delays(delays: Setting) -> tuple[float, float]:
    """Return the seconds until a new instance runs, and from then until it has booted."""
    return (
        delays.factor * delays.draws.uniform(*_LAUNCH_SECONDS),
        delays.factor * delays.draws.uniform(*_BOOT_SECONDS),
    )


def begin_launch(instance: Any) -> None:
    """Make a new instance pending, failing or hidden, by the settings."""
    if DELAYS.factor:
        launch_seconds, boot_seconds = draw_delays(DELAYS)
        instance._embedded_runs_at = time.monotonic() + launch_seconds
        instance._embedded_boots_at = instance._embedded_runs_at + boot_seconds
        _TRANSITIONS.pending.append(instance)
    if LAUNCH_FAILURE.reason:
        instance._embedded_end_reason = LAUNCH_FAILURE.reason
        _TRANSITIONS.failing.append(instance)
        BELL.set()
    if DELAYS.factor or LAUNCH_FAILURE.reason:
        instance._state.name, instance._state.code = "pending", 0
    if LAG.seconds:
        instance._embedded_shown_at = time.monotonic() + LAG.draws.uniform(0.0, LAG.seconds)


def booted(instance: Any) -> bool:
    """Return whether an instance's boot time has passed."""
    return bool(getattr(instance, "_embedded_boots_at", 0.0) <= time.monotonic())


def keep_listed(state: Any) -> bool:
    """List a member as ``Terminating`` for a while; return whether that is switched on."""
    if LINGER.seconds:
        state.lifecycle_state = "Terminating"
        state._embedded_listed_until = time.monotonic() + LINGER.seconds
    return bool(LINGER.seconds)


def is_still_listed(state: Any) -> bool:
    """Return whether a terminated member is still listed."""
    return bool(LINGER.seconds) and state._embedded_listed_until > time.monotonic()


def is_hidden(instance: Any) -> bool:
    """Return whether descriptions omit an instance now."""
    return is_forgotten(instance) or (
        bool(LAG.seconds) and bool(getattr(instance, "_embedded_shown_at", 0.0) > time.monotonic())
    )


def install() -> None:
    """Make TerminateInstances begin a slow termination, and responses omit hidden instances."""
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
        return [_shown_group(group) for group in groups] if _TRANSITIONS.describing else groups

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
        _TRANSITIONS.describing = True
        try:
            return describe(response)
        finally:
            _TRANSITIONS.describing = False


def _begin_end(instance: Any) -> Any:
    from moto.ec2.models.instances import StateReason

    before = copy.copy(instance._state)
    if instance.state not in ("shutting-down", "terminated"):
        instance._state.name, instance._state.code = "shutting-down", 32
        code = "Client.UserInitiatedShutdown"
        instance.state_reason = StateReason(f"{code}: User initiated shutdown", code)
        instance._embedded_ended_at = time.monotonic() + LINGER.seconds / 2
        _TRANSITIONS.ending.append(instance)
    return before


def move_on() -> None:
    """Run, fail and terminate the instances that are due; call it with the lock held."""
    _run_due()
    _terminate_due()
    _fail_launches()


def _run_due() -> None:
    now = time.monotonic()
    still = [instance for instance in _TRANSITIONS.pending if instance.state == "pending"]
    _TRANSITIONS.pending = [instance for instance in still if instance._embedded_runs_at > now]
    for instance in still:
        if instance._embedded_runs_at <= now:
            instance._state.name, instance._state.code = "running", 16
            BELL.set()


def _terminate_due() -> None:
    now = time.monotonic()
    due = [
        one for one in _TRANSITIONS.ending if not LINGER.seconds or one._embedded_ended_at <= now
    ]
    _TRANSITIONS.ending = [one for one in _TRANSITIONS.ending if one not in due]
    for instance in due:
        # The reason is set when the termination begins.
        kept = instance._reason, instance.state_reason
        instance.terminate()
        instance._reason, instance.state_reason = kept
        BELL.set()


def _fail_launches() -> None:
    from moto.ec2.models.instances import StateReason

    failing, _TRANSITIONS.failing = _TRANSITIONS.failing, []
    for instance in failing:
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
