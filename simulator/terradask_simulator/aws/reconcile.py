"""The loop that makes the world follow the numbers: launches and notices that are due, scheduled
actions, groups, then machines.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from terradask_simulator.aws.backend import BELL, STATE_LOCK, autoscaling_backends
from terradask_simulator.aws.history import History
from terradask_simulator.aws.instances import InstanceView, booted_instances

__all__ = ["ReconcileLoop"]

_log = logging.getLogger(__name__)
_PERIOD_SECONDS = 0.2


class ReconcileLoop:
    """A thread that looks at groups and instances several times a second, or as soon as the bell
    rings.

    ``follow`` gets the running instances after each pass; None where nothing stands for them.
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
        """End the thread; nothing is launched or replaced any more."""
        self._stopped.set()
        BELL.set()
        self._thread.join(30)

    def _run(self) -> None:
        while not self._stopped.is_set():
            BELL.clear()
            try:
                more = self._pass()
            except Exception:  # noqa: BLE001  (the loop must outlive one broken group; the log says what failed)
                _log.warning("a pass of the reconcile loop failed", exc_info=True)
                more = False
            if not more:
                BELL.wait(_PERIOD_SECONDS)

    def _pass(self) -> bool:
        from terradask_simulator.aws.fidelity.group_capacity import maintain_all
        from terradask_simulator.aws.fidelity.group_schedules import run_due_actions
        from terradask_simulator.aws.fidelity.slow_instances import move_on
        from terradask_simulator.aws.fidelity.spot import end_interrupted

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
