"""New instances that descriptions don't show yet, once that is switched on: EC2 is eventually
consistent.

For a while after its launch DescribeInstances and DescribeAutoScalingGroups leave an instance out,
and a call that names it gets ``InvalidInstanceID.NotFound``, TerminateInstances too, which "does
not mean that the instance is or will be terminated":
https://docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html
"""

from __future__ import annotations

import copy
import random
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from terradask_simulator.aws.fidelity.clock import is_forgotten

__all__ = ["Lag", "current_lag", "install", "is_hidden", "note_birth", "set_lag"]


@dataclass(frozen=True)
class Lag:
    """How long new instances stay hidden.

    Parameters
    ----------
    seconds
        The longest time; 0 shows all at once.
    seed
        The same seed gives the same times in the same order.
    """

    seconds: float = 0.0
    seed: int = 0


class _State:
    lag = Lag()
    draws = random.Random(0)  # noqa: S311  (nothing secret)
    #: Whether a call that looks is being served: nothing is hidden from the simulator itself.
    describing = False


def current_lag() -> Lag:
    """Return how long new instances stay hidden now."""
    return _State.lag


def set_lag(lag: Lag) -> Lag:
    """Hide new instances so from now on; return how it was before. A lag of 0 shows those that were
    hidden.
    """
    before, _State.lag = _State.lag, lag
    _State.draws = random.Random(lag.seed)  # noqa: S311  (nothing secret)
    return before


def note_birth(instance: Any) -> None:
    """Draw until when a new instance is hidden."""
    if _State.lag.seconds:
        instance._embedded_shown_at = time.monotonic() + _State.draws.uniform(
            0.0, _State.lag.seconds
        )


def is_hidden(instance: Any) -> bool:
    """Return whether descriptions leave an instance out now."""
    return is_forgotten(instance) or (
        bool(_State.lag.seconds)
        and bool(getattr(instance, "_embedded_shown_at", 0.0) > time.monotonic())
    )


def install() -> None:
    """Let moto's answers leave hidden instances out."""
    from moto.autoscaling.models import AutoScalingBackend
    from moto.autoscaling.responses import AutoScalingResponse
    from moto.ec2.models import EC2Backend
    from moto.ec2.responses.instances import InstanceResponse

    describe_groups = AutoScalingBackend.describe_auto_scaling_groups
    describe, describe_named = (
        EC2Backend.describe_instances,
        EC2Backend.get_reservations_by_instance_ids,
    )
    terminate = InstanceResponse.terminate_instances

    def describe_auto_scaling_groups(backend: Any, *args: Any, **kwargs: Any) -> list[Any]:
        groups = describe_groups(backend, *args, **kwargs)
        return [_shown_group(group) for group in groups] if _State.describing else groups

    def describe_instances(backend: Any, *args: Any, **kwargs: Any) -> list[Any]:
        return [
            shown
            for each in describe(backend, *args, **kwargs)
            if (shown := _shown_reservation(each)).instances
        ]

    def get_reservations_by_instance_ids(
        backend: Any, instance_ids: list[str], *args: Any, **kwargs: Any
    ) -> list[Any]:
        _refuse_hidden(instance_ids)
        return list(describe_named(backend, instance_ids, *args, **kwargs))

    def terminate_instances(response: Any) -> Any:
        _refuse_hidden(response._get_param("InstanceIds", []))
        return terminate(response)

    AutoScalingBackend.describe_auto_scaling_groups = describe_auto_scaling_groups
    EC2Backend.describe_instances = describe_instances
    EC2Backend.get_reservations_by_instance_ids = get_reservations_by_instance_ids
    InstanceResponse.terminate_instances = terminate_instances
    AutoScalingResponse.describe_auto_scaling_groups = _describing(
        AutoScalingResponse.describe_auto_scaling_groups
    )


def _describing(answer: Any) -> Any:
    def described(response: Any) -> Any:
        _State.describing = True
        try:
            return answer(response)
        finally:
            _State.describing = False

    return described


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


def _refuse_hidden(instance_ids: Iterable[str]) -> None:
    from moto.ec2.exceptions import InvalidInstanceIdError

    from terradask_simulator.aws.instances import find_instance

    hidden = [one for one in instance_ids if is_hidden(find_instance(one))]
    if hidden:
        raise InvalidInstanceIdError(hidden)
