"""Answer clients what workers use now, from their heartbeats, and how long there was no work."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from terradask_host.gauges import number
from terradask_host.preload.gauges import task_gauges
from terradask_host.preload.lifetime_watch import LifetimeWatch
from terradask_host.rules.membership import EXTRA_WORKER_PREFIX, instance_of

#: Younger values are returned again: many clients cost the scheduler little.
_YOUNG_SECONDS = 2.0


class CurrentUse:
    """Answers `commands.ReadUse` of one scheduler."""

    def __init__(
        self,
        scheduler: Any,
        life: LifetimeWatch,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._scheduler = scheduler
        self._life = life
        self._clock = clock
        self._read_at: float | None = None
        self._answer: dict[str, Any] = {}

    def read(self) -> dict[str, Any]:
        """Return the command's answer."""
        now = self._clock()
        if self._read_at is None or now - self._read_at >= _YOUNG_SECONDS:
            self._read_at = now
            self._answer = {
                "hosts": _hosts(self._scheduler),
                "tasks": task_gauges(self._scheduler),
                # Dask counts how often tasks of each kind of key came to a state.
                "done": sum(
                    prefix.state_counts["memory"]
                    for prefix in self._scheduler.task_prefixes.values()
                ),
                **self._life.timeouts(),
            }
        return self._answer


def _hosts(scheduler: Any) -> dict[str, tuple[float, float]]:
    """Return each host's busy threads and bytes. Tasks can set any value in heartbeats."""
    busy: dict[str, float] = defaultdict(float)
    memory: dict[str, float] = defaultdict(float)
    for worker in scheduler.workers.values():
        name = str(worker.name)
        if not name.startswith(EXTRA_WORKER_PREFIX):
            host = instance_of(name)
            # A worker's is 100 for each busy thread.
            busy[host] += min(number(worker.metrics.get("cpu")) / 100, float(worker.nthreads))
            memory[host] += number(worker.metrics.get("memory"))
    return {host: (busy[host], memory[host]) for host in busy}
