"""Observe what workers use, from their heartbeats, and report it to the host program as sums."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import astuple
from typing import Any

from terradask_host.gauges import number
from terradask_host.preload.gauges import workers_by_host
from terradask_host.preload.leave import Report
from terradask_host.trouble import Trouble
from terradask_host.usage import HostUsage

#: Interval of observations: as workers send heartbeats, or more seldom.
SAMPLE_SECONDS = 5.0

#: From this use of one processor on, the scheduler's process counts as busy.
_BUSY_PERCENT = 90.0


class UsageWatch:
    """The use of workers since the last report.

    Time with a job isn't counted: its commands are processes of their own, which Dask doesn't see.
    """

    def __init__(
        self,
        scheduler: Any,
        report: Report,
        has_jobs: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._scheduler = scheduler
        self._report = report
        self._has_jobs = has_jobs
        self._clock = clock
        self._sampled_at = clock()
        self._trouble = Trouble()
        self._start_anew()

    def _start_anew(self) -> None:
        self._hosts: dict[str, HostUsage] = {}
        self._seconds = self._busy_seconds = 0.0

    async def run(self, report_seconds: float) -> None:
        """Observe and report at intervals, until cancelled."""
        due = self._clock() + report_seconds
        while True:
            await asyncio.sleep(min(SAMPLE_SECONDS, report_seconds))
            self.sample()
            if self._clock() >= due:
                due = self._clock() + report_seconds
                self.flush()

    async def before_close(self) -> None:
        """Report the rest; never raise."""
        self.sample()
        self.flush()

    def before(self, act: Callable[..., Coroutine[Any, Any, None]]) -> Any:
        """Return a function that reports the rest, and then acts."""

        async def run(**options: Any) -> None:
            await self.before_close()
            await act(**options)

        return run

    def flush(self) -> None:
        """Report what was observed since the last report."""
        rows = [astuple(host) for host in self._hosts.values()]
        seconds, busy_seconds = self._seconds, self._busy_seconds
        self._start_anew()
        if rows:
            self._report("usage", seconds=seconds, scheduler_busy_seconds=busy_seconds, hosts=rows)

    def sample(self) -> None:
        """Add the time since the last observation, with what workers use now."""
        now = self._clock()
        seconds, self._sampled_at = now - self._sampled_at, now
        try:
            self._add(0.0 if self._has_jobs() else seconds)
        except Exception as error:  # noqa: BLE001 - another version of Dask may differ
            self._trouble.note(f"no usage: {type(error).__name__}: {error}")

    def _add(self, seconds: float) -> None:
        scheduler = self._scheduler
        scheduler.monitor.update()
        has_queue = bool(scheduler.queued)
        for host, workers in workers_by_host(scheduler).items():
            part = _usage(host, workers, seconds, has_queue=has_queue)
            before = self._hosts.get(host)
            self._hosts[host] = part if before is None else before.plus(part)
        self._seconds += seconds
        if number(scheduler.monitor.recent().get("cpu")) >= _BUSY_PERCENT:
            self._busy_seconds += seconds


def _usage(host: str, workers: list[Any], seconds: float, *, has_queue: bool) -> HostUsage:
    """Return what a host's workers use, for some seconds. Tasks can set any value in heartbeats."""
    threads = float(sum(worker.nthreads for worker in workers))
    # A worker's is 100 for each busy thread.
    busy = min(sum(number(worker.metrics.get("cpu")) for worker in workers) / 100, threads)
    limits = [number(worker.memory_limit) for worker in workers]
    share = max(
        number(worker.metrics.get("memory")) / limit if limit else 0.0
        for worker, limit in zip(workers, limits, strict=True)
    )
    waits = has_queue or any(_has_waiting(worker) for worker in workers)
    waiting = seconds if waits else 0.0
    return HostUsage(
        host=host,
        seconds=seconds,
        workers=float(len(workers)),
        threads=threads,
        thread_seconds=threads * seconds,
        busy_thread_seconds=busy * seconds,
        waiting_seconds=waiting,
        waiting_thread_seconds=threads * waiting,
        waiting_busy_thread_seconds=busy * waiting,
        paused_seconds=seconds if any(one.status.name == "paused" for one in workers) else 0.0,
        memory_limit_bytes=sum(limits),
        memory_share_max=share,
        memory_share_seconds=share * seconds,
        was_used=any(worker.processing or worker.nbytes for worker in workers),
        has_gpus=any("GPU" in worker.resources for worker in workers),
    )


def _has_waiting(worker: Any) -> bool:
    """Return whether tasks wait at a worker, beside those that have left its threads."""
    return bool(len(worker.processing) - len(worker.long_running) > worker.nthreads)
