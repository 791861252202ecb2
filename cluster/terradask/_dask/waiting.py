"""Wait for workers to join, and stop when too many hosts have failed."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Iterable, Set
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING

from terradask._common.clock import age_text
from terradask._common.naming import counted
from terradask._dask.threads import cancelled
from terradask.errors import InvalidInput, WorkersMissing

if TYPE_CHECKING:
    from terradask._clusters.pending_launches import OnRefusal
    from terradask._dask.pool import WorkerPool
    from terradask._observe.status import HostReports
    from terradask_host.documents import HostReport

_JOIN_POLL_SECONDS = 0.05

#: Interval and number of reads of reports while waiting; the limits leave calls for scaling.
REPORT_SECONDS = 5.0
_READS_PER_POLL = 4


@dataclass(eq=False, repr=False)
class WorkerWaiter:
    """Wait until the workers of a run have joined, or can't join any more."""

    pool: WorkerPool
    #: The reports of the run's hosts, of which it reads those of missing ones.
    missing: HostReports
    report_seconds: float = REPORT_SECONDS
    _: KW_ONLY
    #: How long to wait for capacity that AWS lacks.
    capacity_timeout_seconds: float = 0.0
    #: When missing hosts' reports were listed last, on the monotonic clock.
    _listed_at: float = field(default=-math.inf, init=False)

    @property
    def reports(self) -> list[HostReport]:
        """The reports of missing hosts, as far as read."""
        return self.missing.reports

    async def wait_for_workers(
        self, n_workers: int | None = None, timeout: float | None = None
    ) -> None:
        """Wait until workers have joined.

        Parameters
        ----------
        n_workers
            Number of workers in all groups together. By default all that the cluster is scaled to.
        timeout
            Longest wait, in seconds. By default there is no limit.

        Raises
        ------
        WorkersMissing
            When they have not joined in time, or too many hosts have failed: a `TimeoutError` with
            the state of each missing host.
        NoCapacity
            When AWS launches none at all for the cluster's ``capacity_timeout``, with AWS's reason.
        InvalidInput
            When `n_workers` isn't a whole number, or is negative.
        ClusterStopped
            When the cluster doesn't run any more.
        InterruptedError
            When the cluster is closed meanwhile.
        """
        if n_workers is not None and (
            isinstance(n_workers, bool) or not isinstance(n_workers, int) or n_workers < 0
        ):
            raise InvalidInput(
                "The number of workers to wait for must be a whole number.",
                given=n_workers,
                allowed="0 or more",
            )
        await self.wait(n_workers, timeout)

    async def wait(
        self,
        n_workers: int | None = None,
        timeout: float | None = None,
        *,
        takes_fewer: bool = False,
        progress: Callable[[int, int], None] | None = None,
        on_refusal: OnRefusal | None = None,
    ) -> None:
        """Wait for `n_workers`, or fewer with `takes_fewer`; call `progress` with both numbers."""
        from terradask._clusters.pending_launches import CapacityWait, Refusals, ignore_refusal

        started, deployment = time.monotonic(), self.pool.deployment
        wait = CapacityWait(self.capacity_timeout_seconds, on_refusal=on_refusal or ignore_refusal)
        refusals = Refusals(deployment.name, deployment.descriptor, wait)
        reports = asyncio.create_task(self._watch_reports(n_workers, started))
        shown = None
        try:
            while (joined := len(self._joined_hosts())) < (n := self._wanted(n_workers)):
                if progress is not None and shown != joined:
                    progress(joined, n)
                    shown = joined
                if not self.pool.health.is_running:
                    raise InterruptedError(f"cluster {deployment.name!r} was closed")
                self.pool.health.check()
                shortfall = self.pool.shortfall
                if shortfall is not None and shortfall.certain:
                    if not shortfall.there:
                        refusals.take(shortfall)
                    elif takes_fewer and joined >= shortfall.there:
                        return
                if reports.done():
                    await reports
                if timeout is not None and time.monotonic() > started + timeout:
                    await self._check_joining(n_workers, started, late=True)
                await asyncio.sleep(_JOIN_POLL_SECONDS)
        finally:
            await cancelled(reports)

    async def _watch_reports(self, n_workers: int | None, started: float) -> None:
        """Read missing hosts' reports, a few at a time, until they show that workers can't join."""
        next_at = started
        while True:
            next_at = max(next_at + self.report_seconds, time.monotonic())
            await asyncio.sleep(next_at - time.monotonic())
            await self._read_changed()
            await self._check_joining(n_workers, started, late=False)

    async def read_missing(self) -> None:
        """Read some missing hosts' reports, if any are due."""
        is_due = time.monotonic() >= self._listed_at + self.report_seconds
        if is_due and not self.pool.requested <= self._joined_hosts():
            await self._read_changed()

    async def _read_changed(self) -> None:
        limiter, missing = self.pool.deployment.limiter, self.missing
        self._listed_at = time.monotonic()
        async with limiter.async_slot():
            changed = await self.pool.call(missing.list_changed, self._joined_hosts())
        for host in changed[:_READS_PER_POLL]:
            async with limiter.async_slot():
                await self.pool.call(missing.read, [host])

    def _joined_hosts(self) -> set[str]:
        return self.pool.joined.complete_hosts(self.pool.deployment.descriptor.workers_per_host)

    def _wanted(self, n_workers: int | None) -> int:
        return self.pool.wanted if n_workers is None else n_workers

    async def _check_joining(self, n_workers: int | None, started: float, *, late: bool) -> None:
        from terradask._observe.shortfall import describe

        def check() -> None:
            short, deployment = self.pool.shortfall, self.pool.deployment
            check_joining(
                deployment.name,
                self._wanted(n_workers),
                self.missing.reports,
                joined=self._joined_hosts(),
                plan=self.pool.plan,
                waited_seconds=time.monotonic() - started,
                late=late,
                why=None if short is None else describe(short, deployment.descriptor.pools),
            )

        if not late:
            with contextlib.suppress(WorkersMissing):
                check()
                return
        # The error describes all hosts, also those not read yet.
        await self.pool.call(
            self.missing.read, await self.pool.call(self.missing.list_changed, self._joined_hosts())
        )
        check()


# ---- the number to wait for, and the end of waiting ----------------------------------------------


def workers_to_wait_for(wanted: int, wait_for: bool | int | float) -> int:
    """Return the number of workers to wait for, out of `wanted`."""
    if wait_for is True:
        return wanted
    if wait_for is False:
        return 0
    if isinstance(wait_for, int):
        return min(wait_for, wanted)
    return min(math.ceil(wanted * wait_for), wanted)


#: Most hosts that an error describes.
_DESCRIBED_HOSTS = 5

_IN_ORDER = frozenset({"leaving", "left"})


def check_joining(
    cluster: str,
    wanted: int,
    reports: Iterable[HostReport],
    *,
    joined: Set[str],
    plan: Set[str],
    waited_seconds: float,
    late: bool,
    why: str | None = None,
) -> None:
    """Raise `WorkersMissing` if the time is up, or too many of the hosts have failed."""
    lacking = wanted - len(joined)
    if lacking <= 0:
        return
    reports = list(reports)
    missing = [
        r
        for r in reports
        if r.role == "worker" and r.instance_id not in joined and r.state not in _IN_ORDER
    ]
    failed = [r for r in missing if r.failed_once]
    if not late and len(failed) < lacking:
        return
    beyond_plan = wanted - len(plan)
    scale = (
        f"the cluster is scaled to {counted(len(plan), 'worker')}: scale it to {wanted} first; "
        if beyond_plan > 0
        else ""
    )
    without_report = [
        f"  {name}: no report yet"
        for name in sorted(plan - joined - {r.instance_id for r in missing})
    ]
    described = [
        line for r in (failed or missing)[:_DESCRIBED_HOSTS] for line in r.describe_with_log()
    ]
    raise WorkersMissing(
        "\n".join(
            [
                f"{lacking} of the {wanted} workers waited for have not joined cluster {cluster!r} "
                f"after {age_text(waited_seconds)}"
                + (f"; {counted(len(failed), 'host')} failed." if failed else "."),
                *described,
                *without_report[:_DESCRIBED_HOSTS],
                *(
                    f"  {group}: {text}"
                    for r in reports
                    for _, group, kind, text in r.notes
                    if kind == "given up"
                ),
                *([why] if why else []),
            ]
        ),
        cluster=cluster,
        wanted=wanted,
        arrived=len(joined),
        advice=(
            f"{scale}terradask status {cluster} shows every host, terradask logs {cluster} HOST "
            "the output of one"
        ),
    )
