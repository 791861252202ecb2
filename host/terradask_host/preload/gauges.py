"""Reads a scheduler's gauges, and its workers' use for clients, from it and from heartbeats."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from terradask_host.gauges import PROMETHEUS_TYPE, number, prometheus_text
from terradask_host.http_proxy.admission import answer, refusal
from terradask_host.http_proxy.pages import METRICS_PAGE
from terradask_host.http_proxy.request import BadRequest
from terradask_host.http_proxy.server import read_request
from terradask_host.preload.lifetime_watch import LifetimeWatch
from terradask_host.rules.membership import EXTRA_WORKER_PREFIX, instance_of
from terradask_host.trouble import Trouble

T = TypeVar("T")

#: Younger gauges, and younger answers to clients, are returned again.
_YOUNG_SECONDS, _YOUNG_USE_SECONDS = 5.0, 2.0

#: Interval of the event loop's checks, and how long the longest lag counts.
_LOOK_SECONDS = 0.1
_REMEMBERED_SECONDS = 60

#: Interval of Dask's loop ticks, which report a tick's average duration.
_TICK_SECONDS = 0.02

_STATES = {
    "waiting": "tasks_waiting",
    "queued": "tasks_queued",
    "no-worker": "tasks_no_worker",
    "processing": "tasks_processing",
    "memory": "tasks_in_memory",
    "erred": "tasks_erred",
}


class LoopLag:
    """Records the lag of an event loop, the longest of each second."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._longest: deque[tuple[int, float]] = deque(maxlen=_REMEMBERED_SECONDS)

    async def watch(self) -> None:
        """Watch until cancelled."""
        while True:
            expected = self._clock() + _LOOK_SECONDS
            await asyncio.sleep(_LOOK_SECONDS)
            self.note(self._clock() - expected)

    def note(self, late_seconds: float) -> None:
        """Record a lag."""
        second, late = int(self._clock()), max(late_seconds, 0.0)
        if self._longest and self._longest[-1][0] == second:
            late = max(late, self._longest.pop()[1])
        self._longest.append((second, late))

    def longest(self) -> float:
        """Return the longest lag in the last minute, in seconds."""
        since = self._clock() - _REMEMBERED_SECONDS
        return max((late for second, late in self._longest if second >= since), default=0.0)


def unless_young(
    seconds: float, read: Callable[[], T], clock: Callable[[], float] = time.monotonic
) -> Callable[[], T]:
    """Return a function that reads a value, unless the last one is younger: many requests cost
    the scheduler little.
    """
    last: tuple[float, T] | None = None

    def value() -> T:
        nonlocal last
        now = clock()
        if last is None or now - last[0] >= seconds:
            last = now, read()
        return last[1]

    return value


class Gauges:
    """The gauges of one scheduler, read at most every few seconds."""

    def __init__(
        self, scheduler: Any, lag: LoopLag, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._values = unless_young(
            _YOUNG_SECONDS, lambda: read_gauges(scheduler, lag.longest()), clock
        )

    def values(self) -> Mapping[str, float]:
        """Return each gauge's value."""
        return self._values()


async def report_gauges(gauges: Gauges, seconds: float, report: Callable[..., None]) -> None:
    """Report the gauges to the host program at intervals."""
    trouble = Trouble()
    while True:
        await asyncio.sleep(seconds)
        try:
            values = dict(gauges.values())
        except Exception as error:  # noqa: BLE001 - another version of Dask may differ
            trouble.note(f"no gauges: {type(error).__name__}: {error}")
        else:
            report("gauges", values=values)


def read_gauges(scheduler: Any, lag_seconds: float) -> dict[str, float]:
    """Return a scheduler's gauges now."""
    scheduler.monitor.update()
    own = scheduler.monitor.recent()
    return {
        **_worker_gauges(scheduler.workers.values()),
        **task_gauges(scheduler),
        "clients": float(sum(name != "fire-and-forget" for name in scheduler.clients)),
        "scheduler_event_loop_lag_seconds": lag_seconds,
        "scheduler_cpu_percent": number(own.get("cpu")),
        "scheduler_memory_bytes": number(own.get("memory")),
    }


def task_gauges(scheduler: Any) -> dict[str, float]:
    """Return the numbers of tasks by state."""
    # Dask keeps the numbers by prefix, so no single task is read.
    counts = dict.fromkeys(_STATES.values(), 0)
    for prefix in scheduler.task_prefixes.values():
        states = prefix.states
        for state, name in _STATES.items():
            counts[name] += states.get(state, 0)
    return {name: float(count) for name, count in counts.items()}


def current_use(
    scheduler: Any, life: LifetimeWatch, clock: Callable[[], float] = time.monotonic
) -> Callable[[], dict[str, Any]]:
    """Return what answers `commands.ReadUse`."""
    return unless_young(_YOUNG_USE_SECONDS, lambda: _read_use(scheduler, life), clock)


def _read_use(scheduler: Any, life: LifetimeWatch) -> dict[str, Any]:
    return {
        "hosts": _hosts(scheduler),
        "tasks": task_gauges(scheduler),
        # Dask counts how often tasks of each kind of key came to a state.
        "done": sum(each.state_counts["memory"] for each in scheduler.task_prefixes.values()),
        **life.timeouts(),
    }


def _hosts(scheduler: Any) -> dict[str, tuple[float, float]]:
    """Return each host's busy threads and bytes. Tasks can set any value in heartbeats."""
    return {
        host: (
            # A worker's is 100 for each busy thread.
            sum(min(number(one.metrics.get("cpu")) / 100, float(one.nthreads)) for one in workers),
            sum(number(one.metrics.get("memory")) for one in workers),
        )
        for host, workers in workers_by_host(scheduler).items()
    }


def workers_by_host(scheduler: Any) -> dict[str, list[Any]]:
    """Return a scheduler's workers by their host, without the one on the scheduler's host."""
    found: dict[str, list[Any]] = defaultdict(list)
    for worker in scheduler.workers.values():
        if not str(worker.name).startswith(EXTRA_WORKER_PREFIX):
            found[instance_of(str(worker.name))].append(worker)
    return found


def _worker_gauges(workers: Iterable[Any]) -> dict[str, float]:
    """Return the workers' gauges. Tasks can set any value in heartbeats, so each is checked."""
    counts = {"running": 0, "paused": 0, "closing_gracefully": 0}
    idle = threads = 0
    memory = spilled = cpu = fullest = lag = 0.0
    received: dict[str, float] = {}
    sent: dict[str, float] = {}
    for worker in workers:
        state = worker.status.name
        counts[state] = counts.get(state, 0) + 1
        idle += state == "running" and not worker.processing
        threads += worker.nthreads
        said = worker.metrics
        own = number(said.get("memory"))
        memory += own
        if limit := number(worker.memory_limit):
            fullest = max(fullest, 100 * own / limit)
        spilled += number(_part(said, "spilled_bytes", "disk"))
        cpu += number(said.get("cpu"))
        lag = max(lag, number(said.get("event_loop_interval")))
        # Several workers of one host report the same.
        host = worker.host
        received[host] = max(
            received.get(host, 0.0), number(_part(said, "host_net_io", "read_bps"))
        )
        sent[host] = max(sent.get(host, 0.0), number(_part(said, "host_net_io", "write_bps")))
    return {
        "workers_running": float(counts["running"]),
        "workers_idle": float(idle),
        "workers_paused": float(counts["paused"]),
        "workers_retiring": float(counts["closing_gracefully"]),
        "threads": float(threads),
        # A worker's is 100 for each busy thread.
        "worker_cpu_percent": cpu / threads if threads else 0.0,
        "worker_memory_bytes": memory,
        "worker_memory_percent_max": fullest,
        "worker_spilled_bytes": spilled,
        "worker_received_bytes_per_second": sum(received.values()),
        "worker_sent_bytes_per_second": sum(sent.values()),
        "worker_event_loop_lag_seconds_max": max(lag - _TICK_SECONDS, 0.0),
    }


def _part(said: Mapping[str, Any], name: str, part: str) -> object:
    found = said.get(name)
    return found.get(part) if isinstance(found, Mapping) else None


class MetricsPage:
    """The page with the gauges, for Prometheus; the only one that its certificate opens.

    Answers one request of a connection: with the gauges, or with 403.
    """

    def __init__(self, gauges: Gauges) -> None:
        self._gauges = gauges

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a request. Raises ``OSError``."""
        try:
            request = await read_request(reader)
        except BadRequest as error:
            writer.write(refusal(400, f"The request is invalid. {error}"))
            return
        if request is None:
            return
        if (request.method, request.path) != ("GET", METRICS_PAGE):
            writer.write(refusal(403, f"This certificate opens only GET {METRICS_PAGE}."))
            return
        content = prometheus_text(self._gauges.values()).encode()
        writer.write(answer(200, PROMETHEUS_TYPE, content))
        await writer.drain()
