"""What groups had and wanted from the beginning on, and which instances lived when: what invariants
are asserted of.

Noted by the reconcile loop, which alone launches, after each of its passes: no launch is missed.
"""

from __future__ import annotations

from typing import Any

from terradask_simulator.aws.backend import STATE_LOCK, autoscaling_backends
from terradask_simulator.aws.fidelity.clock import now as aws_now

__all__ = ["History"]


class History:
    """Groups and instances of one embedded AWS over time. Times are seconds since the epoch."""

    def __init__(self) -> None:
        self._groups: list[dict[str, Any]] = []
        self._instances: dict[str, dict[str, Any]] = {}
        self._last: dict[str, tuple[int, tuple[str, ...]]] = {}

    def note(self) -> None:
        """Look at every group; call it with the lock held."""
        now = aws_now().timestamp()
        groups = {
            group.name: group
            for backend in autoscaling_backends()
            for group in backend.autoscaling_groups.values()
        }
        for name in self._last.keys() - groups.keys():
            self._end(self._last.pop(name)[1], now)
        for name, group in groups.items():
            alive = [
                state.instance
                for state in group.instance_states
                if state.instance.state in ("pending", "running")
            ]
            seen = int(group.desired_capacity), tuple(instance.id for instance in alive)
            before = self._last.get(name)
            if seen == before:
                continue
            self._last[name] = seen
            self._groups.append(
                {"seconds": now, "group": name, "desired": seen[0], "instances": list(seen[1])}
            )
            self._end(set(before[1] if before else ()) - set(seen[1]), now)
            for instance in alive:
                if instance.id not in self._instances:
                    self._instances[instance.id] = _birth(instance, name, now)

    def as_dict(self) -> dict[str, Any]:
        """Return ``groups``, a row for each change, and ``instances`` by their id."""
        with STATE_LOCK:
            return {"groups": list(self._groups), "instances": dict(self._instances)}

    def _end(self, instance_ids: Any, now: float) -> None:
        for instance_id in instance_ids:
            self._instances[instance_id]["ended"] = now


def _birth(instance: Any, group: str, now: float) -> dict[str, Any]:
    return {
        "group": group,
        "born": now,
        "ended": None,
        "private_address": instance.private_ip_address,
        "tags": dict(instance.ec2_backend.tags.get(instance.id, {})),
    }
