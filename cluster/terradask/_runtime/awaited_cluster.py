"""Waiting for workers to join."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from distributed.core import Status

from terradask._runtime.host_workers import whole_hosts
from terradask._runtime.joining import check_joining
from terradask._runtime.mirrored_cluster import MirroredCluster
from terradask._runtime.missing import MissingHosts
from terradask._runtime.shortage import describe, no_capacity
from terradask.errors import InvalidInput, WorkersMissing

_JOIN_POLL_SECONDS = 0.05

#: Reports are looked at this often while waiting for workers.
_REPORT_SECONDS = 5.0


class AwaitedCluster(MirroredCluster):
    """A `MirroredCluster` whose workers can be waited for."""

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
        InterruptedError
            When the cluster is closed meanwhile.
        """
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
        next_report = started + _REPORT_SECONDS
        missing: MissingHosts | None = None
        told = None
        while (joined := len(self._joined_hosts())) < (n := self._wanted() if n_workers is None else n_workers):
            now = time.monotonic()
            if on_wait is not None and told != joined:
                on_wait(joined, n)
                told = joined
            if self.status != Status.running:
                raise InterruptedError(f"cluster {self._deployment.name!r} was closed")
            shortfall = self._shortfall
            if shortfall is not None and shortfall.certain:
                if not shortfall.there:
                    raise no_capacity(self._deployment.name, shortfall, self._deployment.descriptor.pools)
                if takes_fewer and joined >= shortfall.there:
                    return
            late = timeout is not None and now > started + timeout
            if late or now > next_report:
                missing = missing or MissingHosts(self._deployment.objects, self._run_id)
                await self._call(self._check_joining, missing, n, now - started, late)
                next_report = time.monotonic() + _REPORT_SECONDS
            await asyncio.sleep(_JOIN_POLL_SECONDS)

    def _joined_hosts(self) -> set[str]:
        """Instance ids of the hosts all of whose workers have joined."""
        return whole_hosts(self._joined_names(), self._workers_per_host)

    def _wanted(self) -> int:
        """Return how many workers all groups together are to have."""
        sets = self._workers.sets if self._workers is not None else {}
        return sum(self._targets.get(name, len(each.roster)) for name, each in sets.items())

    def _check_joining(self, missing: MissingHosts, n: int, waited_seconds: float, late: bool) -> None:
        name, joined, plan = self._deployment.name, self._joined_hosts(), self.plan
        # Once: the loop's thread may find meanwhile that nothing is missing any more.
        shortfall = self._shortfall
        why = describe(shortfall, self._deployment.descriptor.pools) if shortfall is not None else None

        def check(*, everything: bool) -> None:
            reports = missing.look(joined, everything=everything)
            check_joining(name, n, reports, joined=joined, plan=plan, waited_seconds=waited_seconds, late=late, why=why)

        try:
            check(everything=late)
        except WorkersMissing:
            # It tells of all hosts, also of those whose turn had not come.
            check(everything=True)
            raise
