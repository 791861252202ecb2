"""Waiting for workers to join."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any

from distributed.core import Status

from terradask._dask.connection import WatchedCluster
from terradask._dask.host_workers import whole_hosts
from terradask._dask.joining import check_joining
from terradask._dask.missing_hosts import MissingHosts
from terradask._deployments.shortfall import describe, no_capacity
from terradask.errors import InvalidInput, WorkersMissing

_JOIN_POLL_SECONDS = 0.05

#: Reports are looked at this often while waiting for workers, and so many are read: who scales or watches the groups has looks left.
_REPORT_SECONDS = 5.0
_READS_A_LOOK = 4


class AwaitedCluster(WatchedCluster):
    """A `WatchedCluster` whose workers can be waited for."""

    def wait_for_workers(self, n_workers: int | None = None, timeout: float | None = None) -> Any:
        """Wait until workers have joined.

        Parameters
        ----------
        n_workers
            How many, of all groups together; all that the cluster is scaled to where left out.
        timeout
            Longest wait, in seconds. By default there is no limit.

        Raises
        ------
        WorkersMissing
            When they have not come in time, or as many hosts have failed as were waited for: a `TimeoutError` that says how far each
            missing host came.
        NoCapacity
            When AWS launches none at all, and says why.
        InvalidInput
            When `n_workers` is no whole number, or negative.
        ClusterEnded, ClusterStopped
            When the cluster doesn't run any more.
        InterruptedError
            When the cluster is closed meanwhile.
        """
        self._check_usable()
        if n_workers is not None and (isinstance(n_workers, bool) or not isinstance(n_workers, int) or n_workers < 0):
            raise InvalidInput("A number of workers to wait for is a whole number.", given=n_workers, allowed="0 or more")
        return self.sync(self._wait_for_workers, n_workers, timeout=timeout)

    async def _wait_for_workers(
        self,
        n_workers: int | None = None,
        timeout: float | None = None,
        takes_fewer: bool = False,
        on_wait: Callable[[int, int], None] | None = None,
    ) -> None:
        started = time.monotonic()
        missing = MissingHosts(self._deployment.objects, self._run_id)
        reports = asyncio.create_task(self._watch_reports(missing, n_workers, started))
        told = None
        try:
            while (joined := len(self._joined_hosts())) < (n := self._awaited(n_workers)):
                if on_wait is not None and told != joined:
                    on_wait(joined, n)
                    told = joined
                if self.status != Status.running:
                    raise InterruptedError(f"cluster {self._deployment.name!r} was closed")
                self._check_usable()
                shortfall = self._shortfall
                if shortfall is not None and shortfall.certain:
                    if not shortfall.there:
                        raise no_capacity(self._deployment.name, shortfall, self._deployment.descriptor.pools)
                    if takes_fewer and joined >= shortfall.there:
                        return
                if reports.done():
                    await reports
                if timeout is not None and time.monotonic() > started + timeout:
                    await self._check_joining(missing, n_workers, started, late=True)
                await asyncio.sleep(_JOIN_POLL_SECONDS)
        finally:
            reports.cancel()
            await asyncio.gather(reports, return_exceptions=True)

    async def _watch_reports(self, missing: MissingHosts, n_workers: int | None, started: float) -> None:
        """Read what missing hosts say, a few at a time, until that makes waiting on pointless."""
        limiter, next_at = self._deployment.limiter, started
        while True:
            next_at = max(next_at + _REPORT_SECONDS, time.monotonic())
            await asyncio.sleep(next_at - time.monotonic())
            async with limiter.async_slot():
                changed = await self._call(missing.list_changed, self._joined_hosts())
            for host in changed[:_READS_A_LOOK]:
                async with limiter.async_slot():
                    await self._call(missing.read, [host])
            await self._check_joining(missing, n_workers, started, late=False)

    def _joined_hosts(self) -> set[str]:
        """Instance ids of the hosts all of whose workers have joined."""
        return whole_hosts(self._joined_names(), self._workers_per_host)

    def _wanted(self) -> int:
        """Return how many workers all groups together are to have."""
        sets = self._workers.sets if self._workers is not None else {}
        # What AWS is being told just now is in no plan yet.
        asked = (self._untold_targets or {}) | self._targets
        return sum(asked.get(name, len(each.roster)) for name, each in sets.items())

    def _awaited(self, n_workers: int | None) -> int:
        return self._wanted() if n_workers is None else n_workers

    async def _check_joining(self, missing: MissingHosts, n_workers: int | None, started: float, *, late: bool) -> None:
        def check() -> None:
            name, plan, waited_seconds = self._deployment.name, self.plan, time.monotonic() - started
            joined, n = self._joined_hosts(), self._awaited(n_workers)
            # Once: the loop's thread may find meanwhile that nothing is missing any more.
            shortfall = self._shortfall
            why = describe(shortfall, self._deployment.descriptor.pools) if shortfall is not None else None
            check_joining(name, n, missing.reports, joined=joined, plan=plan, waited_seconds=waited_seconds, late=late, why=why)

        if not late:
            with contextlib.suppress(WorkersMissing):
                check()
                return
        # The error tells of all hosts, also of those whose turn had not come.
        await self._call(missing.read, await self._call(missing.list_changed, self._joined_hosts()))
        check()
