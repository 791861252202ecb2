"""Hold the parts of a `Cluster` object that is attached to a running cluster."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from distributed.core import Status

from terradask._common.progress import Message, Progress
from terradask._dask.adaptive import warn_if_older
from terradask._dask.display import group_counts
from terradask._dask.waiting import workers_to_wait_for
from terradask.errors import ReportNotFound

if TYPE_CHECKING:
    from terradask._clusters.deployment import Deployment
    from terradask._dask.adaptive import ScalingPolicies
    from terradask._dask.connection import SchedulerConnection
    from terradask._dask.dashboard import DashboardForward, JupyterForward, SharedDashboard
    from terradask._dask.dial import Dialer
    from terradask._dask.job_requests import JobRequests
    from terradask._dask.package_updates import PackageUpdates
    from terradask._dask.pool import WorkerPool
    from terradask._dask.provision import Provisioned
    from terradask._dask.reach import ReachTests
    from terradask._dask.request import Request
    from terradask._dask.secrets import SecretRelay
    from terradask._dask.waiting import WorkerWaiter
    from terradask._observe.reports.report import RunReport

logger = logging.getLogger("terradask")

#: Longest wait for a cluster's last report before its end.
LAST_REPORT_SECONDS = 10.0


@dataclass(frozen=True)
class Attached:
    """A running cluster and the parts that communicate with it."""

    provisioned: Provisioned
    dialer: Dialer
    connection: SchedulerConnection
    policies: ScalingPolicies
    pool: WorkerPool
    waiter: WorkerWaiter
    secrets: SecretRelay
    dashboard: DashboardForward
    jupyter: JupyterForward | None
    packages: PackageUpdates
    jobs: JobRequests
    reach_tests: ReachTests

    @property
    def deployment(self) -> Deployment:
        """The running deployment."""
        return self.provisioned.deployment

    async def start(self, request: Request, progress: Progress) -> None:
        """Serve the dashboard and mirror the groups; on request, send credentials, and wait."""
        from terradask._observe.shortfall import describe_refusal

        settings = self.provisioned.settings
        await self._start_forward(self.dashboard.start, "dashboard")
        if self.jupyter is not None:
            await self._start_forward(self.jupyter.start, "notebooks")
        await self.pool.start(self.provisioned.groups)
        if request.credentials == "local":
            await self.secrets.send_first_credentials()
        warn_if_older(request.name, self.policies)
        if self.provisioned.origin == "attached" and "wait_for_workers" not in request.given:
            return

        def show(joined: int, wanted: int) -> None:
            counts = group_counts(self.pool.groups)
            groups = f" ({counts})" if counts else ""
            progress(
                Message(
                    f"{request.name}: waiting for workers, {joined} of {wanted} have joined{groups}"
                )
            )

        n = workers_to_wait_for(len(self.pool.plan), settings.wait_for_workers)
        await self.waiter.wait(
            n,
            settings.worker_timeout_seconds,
            takes_fewer=True,
            progress=show,
            on_refusal=lambda refusal, left: progress(
                Message(describe_refusal(refusal, left), kept=True)
            ),
        )

    async def _start_forward(self, start: Callable[[], Awaitable[None]], service: str) -> None:
        """Start a forward on this machine; a failure is only logged."""
        try:
            await start()
        except OSError as error:
            name = self.connection.health.name
            logger.warning("cluster %s: no link to its %s: %s", name, service, error)

    async def shared_dashboard(self) -> SharedDashboard | None:
        """Return the dashboard over HTTPS, for people without terradask.

        Returns
        -------
        SharedDashboard or None
            Its `link`, with the token of this scheduler process; the `fingerprint` (SHA-256) of the
            certificate, which browsers warn about; and with `jupyter` the `jupyter_link`. None
            without `use_dashboard_https`.

        Raises
        ------
        ClusterStopped
            When the cluster doesn't run any more.
        VersionMismatch
            When its hosts run a terradask without this dashboard.
        """
        async with self.connection.translated_end():
            if not self.provisioned.settings.use_dashboard_https:
                return None
            public = self.dialer.route == "public"
            return await self.dashboard.shared(self.connection.attachment, public=public)

    async def close_forwards(self) -> None:
        """Stop serving the dashboard and the notebook server here."""
        await self.dashboard.close()
        if self.jupyter is not None:
            await self.jupyter.close()

    async def request_report(self, *, last: bool = False) -> str | None:
        """Have the cluster store its performance report; return the reason of a failure, or
        None.
        """
        try:
            return await self.dashboard.request_report(self.deployment.name, last=last)
        except OSError as error:
            return f"its scheduler's host doesn't answer: {error}"

    async def make_report(self, run: str | None, is_running: bool) -> RunReport:
        """Return a run's report; the current run makes a new one first."""
        why = await self.request_report() if run is None and is_running else None
        try:
            return await asyncio.to_thread(self.deployment.report, run)
        except ReportNotFound as error:
            raise ReportNotFound(self.deployment.name, run, error.runs, why) from error

    async def keep_last_report(self) -> None:
        """Have the cluster store its performance report while its workers can still send their
        profiles.
        """
        why: str | None = f"it took longer than {LAST_REPORT_SECONDS:.0f} s"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_REPORT_SECONDS):
                why = await self.request_report(last=True)
        if why is not None:
            logger.debug("cluster %s: no performance report: %s", self.deployment.name, why)

    async def stop(self) -> None:
        """Stop polling the groups and sending secrets."""
        await self.secrets.stop()
        await self.pool.stop()


# ---- placeholders for SpecCluster's scheduler and workers ----------------------------------------


class RemoteScheduler:
    """The scheduler of an attached cluster, with the interface that SpecCluster needs."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.status = Status.running

    def __await__(self) -> Generator[Any, Any, RemoteScheduler]:
        async def itself() -> RemoteScheduler:
            return self

        return itself().__await__()

    async def close(self) -> None:
        """Mark the connection as closed: the scheduler's host ends with its group."""
        self.status = Status.closed


class RemoteWorker:
    """A worker on an instance, for SpecCluster's ``worker_spec``; the group launches it."""
