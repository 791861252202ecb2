"""New instances that descriptions don't show yet, once that is switched on: EC2 is eventually
consistent.

For a while after its launch DescribeInstances and DescribeAutoScalingGroups leave an instance out,
and a call that names it gets ``InvalidInstanceID.NotFound``, TerminateInstances too, which "does
not mean that the instance is or will be terminated":
https://docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable
from typing import Any

from terradask_simulator.aws.fidelity.clock import is_forgotten
from terradask_simulator.aws.fidelity.patching import around
from terradask_simulator.aws.switchboard import Setting

__all__ = ["LAG", "install", "is_hidden", "note_birth"]


#: The longest time for which new instances stay hidden.
LAG = Setting(seconds=0.0, seed=0)


class _State:
    #: Whether a call that looks is being served: nothing is hidden from the simulator itself.
    describing = False


def note_birth(instance: Any) -> None:
    """Draw until when a new instance is hidden."""
    if LAG.seconds:
        instance._embedded_shown_at = time.monotonic() + LAG.draws.uniform(0.0, LAG.seconds)


def is_hidden(instance: Any) -> bool:
    """Return whether descriptions leave an instance out now."""
    return is_forgotten(instance) or (
        bool(LAG.seconds) and bool(getattr(instance, "_embedded_shown_at", 0.0) > time.monotonic())
    )


def install() -> None:
    """Let moto's answers leave hidden instances out."""
    from moto.autoscaling.models import AutoScalingBackend
    from moto.autoscaling.responses import AutoScalingResponse
    from moto.ec2.models import EC2Backend
    from moto.ec2.responses.instances import InstanceResponse

    @around(AutoScalingBackend, "describe_auto_scaling_groups")
    def shown_groups(describe: Any, backend: Any, *args: Any, **kwargs: Any) -> list[Any]:
        groups: list[Any] = describe(backend, *args, **kwargs)
        return [_shown_group(group) for group in groups] if _State.describing else groups

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
        _refuse_hidden(instance_ids)
        return list(get(backend, instance_ids, *args, **kwargs))

    @around(InstanceResponse, "terminate_instances")
    def terminate_instances(terminate: Any, response: Any) -> Any:
        _refuse_hidden(response._get_param("InstanceIds", []))
        return terminate(response)

    @around(AutoScalingResponse, "describe_auto_scaling_groups")
    def described(describe: Any, response: Any) -> Any:
        _State.describing = True
        try:
            return describe(response)
        finally:
            _State.describing = False


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
