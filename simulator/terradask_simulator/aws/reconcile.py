"""The reconcile loop: due launches and notices, scheduled actions, groups, then machines."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from terradask_simulator.aws.backend import BELL, STATE_LOCK, autoscaling_backends
from terradask_simulator.aws.fidelity.clock import now as aws_now
from terradask_simulator.aws.fidelity.group_capacity import maintain_all
from terradask_simulator.aws.fidelity.group_schedules import run_due_actions
from terradask_simulator.aws.fidelity.group_zones import warmed
from terradask_simulator.aws.fidelity.slow_instances import move_on
from terradask_simulator.aws.fidelity.spot import end_interrupted
from terradask_simulator.aws.instances import InstanceView, booted_instances

__all__ = ["History", "ReconcileLoop"]

_log = logging.getLogger(__name__)
_PERIOD_SECONDS = 0.2


class ReconcileLoop:
    """A thread that reconciles groups and instances several times a second, or as soon as `BELL` is
    set.

    ``follow`` gets the running instances after each pass; None without machines.
    """

    def __init__(
        self, history: History, follow: Callable[[list[InstanceView]], None] | None
    ) -> None:
        self._follow = follow
        self._history = history
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reconcile", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; no instance is launched or replaced any longer."""
        self._stopped.set()
        BELL.set()
        self._thread.join(30)

    def _run(self) -> None:
        while not self._stopped.is_set():
            BELL.clear()
            try:
                more = self._pass()
            except Exception:  # noqa: BLE001  (the loop must outlive one failure)
                _log.warning("a pass of the reconcile loop failed", exc_info=True)
                more = False
            if not more:
                BELL.wait(_PERIOD_SECONDS)

    def _pass(self) -> bool:

        more = False
        with STATE_LOCK:
            move_on()
            end_interrupted()
            for backend in autoscaling_backends():
                run_due_actions(backend)
                more = maintain_all(backend) or more
            self._history.note()
        if self._follow is not None:
            self._follow(booted_instances())
        return more


class History:
    """Actual and desired numbers of groups since the start, and lifetimes of instances, for tests
    of invariants. Times are seconds since the epoch.

    It is recorded after each pass of the loop. Only the loop launches, so that no launch is missed.
    """

    def __init__(self) -> None:
        self._groups: list[dict[str, Any]] = []
        self._instances: dict[str, dict[str, Any]] = {}
        self._last: dict[str, tuple[int, tuple[str, ...], tuple[str, ...]]] = {}

    def note(self) -> None:
        """Record every group; call it with the lock held."""
        now = aws_now().timestamp()
        groups = {
            group.name: group
            for backend in autoscaling_backends()
            for group in backend.autoscaling_groups.values()
        }
        for name in self._last.keys() - groups.keys():
            _, members, prepared = self._last.pop(name)
            self._end({*members, *prepared}, now)
        for name, group in groups.items():
            alive = _alive(group.instance_states, "pending", "running")
            kept = _alive(warmed(group), "pending", "running", "stopping", "stopped")
            seen = int(group.desired_capacity), tuple(alive), tuple(kept)
            before = self._last.get(name)
            if seen == before:
                continue
            self._last[name] = seen
            self._groups.append(
                {
                    "seconds": now,
                    "group": name,
                    "desired": seen[0],
                    "instances": list(alive),
                    "warmed": list(kept),
                }
            )
            was = set() if before is None else {*before[1], *before[2]}
            self._end(was - alive.keys() - kept.keys(), now)
            for instance in (*alive.values(), *kept.values()):
                if instance.id not in self._instances:
                    self._instances[instance.id] = _birth(instance, name, now)
            for instance_id in alive:
                born = self._instances[instance_id]
                born["joined_group"] = born["joined_group"] or now

    def as_dict(self) -> dict[str, Any]:
        """Return ``groups``, a row for each change, and ``instances`` by their id."""
        with STATE_LOCK:
            return {"groups": list(self._groups), "instances": dict(self._instances)}

    def _end(self, instance_ids: Any, now: float) -> None:
        for instance_id in instance_ids:
            self._instances[instance_id]["ended"] = now


def _alive(states: Any, *of: str) -> dict[str, Any]:
    return {state.instance.id: state.instance for state in states if state.instance.state in of}


def _birth(instance: Any, group: str, now: float) -> dict[str, Any]:
    return {
        "group": group,
        "born": now,
        # When it became a member: an instance of a warm pool is born before.
        "joined_group": None,
        "ended": None,
        "private_address": instance.private_ip_address,
        "tags": dict(instance.ec2_backend.tags.get(instance.id, {})),
    }
