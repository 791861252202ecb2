"""The parts of a cluster object that is attached to its cluster."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

from terradask._aws.credentials import lend
from terradask._common.progress import Message, Progress
from terradask._dask.adaptive import requested_bounds
from terradask._dask.connection import SchedulerConnection
from terradask._dask.dashboard import DashboardForward
from terradask._dask.dial import Dialer
from terradask._dask.display import by_group
from terradask._dask.health import Health, RunCheck
from terradask._dask.host_workers import JoinedWorkers
from terradask._dask.package_updates import PackageUpdates
from terradask._dask.pool import WorkerPool
from terradask._dask.provision import Provisioned, addresses_let_in
from terradask._dask.request import Request
from terradask._dask.scaling import workers_to_wait_for
from terradask._dask.secrets import SecretRelay
from terradask._dask.shared_dashboard import SharedDashboard, request_shared_dashboard
from terradask._dask.threads import Call
from terradask._dask.waiting import WorkerWaiter
from terradask._dask.workers import Workers
from terradask._deployments.attach import Attachment
from terradask._deployments.deployment import Deployment
from terradask._deployments.endpoint import endpoint_for, route_of
from terradask._deployments.pending_launches import PendingLaunches

#: Default of the setting `spot_fallback_seconds`, which older deployments lack.
DEFAULT_FALLBACK_SECONDS = 60


@dataclass(frozen=True)
class Attached:
    """A running cluster, and the parts that communicate with it."""

    provisioned: Provisioned
    dialer: Dialer
    connection: SchedulerConnection
    pool: WorkerPool
    waiter: WorkerWaiter
    secrets: SecretRelay
    dashboard: DashboardForward
    packages: PackageUpdates

    @classmethod
    async def to(
        cls,
        provisioned: Provisioned,
        request: Request,
        health: Health,
        joined: JoinedWorkers,
        call: Call,
    ) -> Attached:
        """Connect to the scheduler, and create the parts around that connection."""
        deployment, run_id = provisioned.deployment, provisioned.attachment.run.run_id
        dialer = Dialer(
            deployment,
            endpoint_for(route_of(provisioned.settings), provisioned.workspace.aws),
            provisioned.attachment.keys.client_security(),
            call,
            let_in=partial(addresses_let_in, provisioned.workspace),
        )
        async with AsyncExitStack() as cleanup:
            cleanup.push_async_callback(dialer.close)
            attachment, comm = await dialer.reach(provisioned.attachment)
            scheduler = dialer.scheduler_at(comm.peer_address)
            cleanup.push_async_callback(scheduler.close_rpc)
            # The connection that `reach` made becomes the first one of the pool.
            scheduler.comms[comm] = True
            run = RunCheck(deployment, run_id, health, call)
            connection = SchedulerConnection(
                dialer, attachment, scheduler, health=health, joined=joined, run=run
            )
            workers = workers_of(deployment, attachment, call)
            pool = WorkerPool(deployment, workers, scheduler, joined=joined, health=health, run=run)
            cleanup.pop_all()
        return cls(
            provisioned,
            dialer,
            connection,
            pool,
            WorkerWaiter(deployment, run_id, pool, joined=joined, health=health, call=call),
            SecretRelay(
                connection,
                health,
                call,
                partial(lend, deployment.aws, request.credentials_duration_seconds),
            ),
            DashboardForward(
                partial(dialer.dashboard, attachment), dialer.connection_args["ssl_context"]
            ),
            PackageUpdates(deployment, connection, call),
        )

    @property
    def deployment(self) -> Deployment:
        """The running deployment."""
        return self.provisioned.deployment

    async def start(
        self, request: Request, progress: Progress, *, adapt: Callable[..., Any]
    ) -> None:
        """Serve the dashboard and mirror the groups; if asked, send credentials, wait, adapt."""
        settings = self.provisioned.settings
        await self.dashboard.start()
        await self.pool.start()
        if request.credentials == "local":
            await self.secrets.send_first_credentials()
        if self.provisioned.origin == "attached":
            return

        def show(joined: int, wanted: int) -> None:
            each = by_group(self.pool.groups)
            groups = f" ({each})" if each else ""
            progress(
                Message(
                    f"{request.name}: waiting for workers, {joined} of {wanted} have joined{groups}"
                )
            )

        n = workers_to_wait_for(len(self.pool.plan), settings["wait_for_workers"])
        await self.waiter.wait(
            n, settings["worker_timeout_seconds"], takes_fewer=True, progress=show
        )
        bounds = requested_bounds(settings.get("n_workers"), self.deployment)
        if bounds is not None:
            adapt(minimum=bounds[0], maximum=bounds[1])

    async def shared_dashboard(self) -> SharedDashboard | None:
        """Return the dashboard over HTTPS, for people without terradask.

        Returns
        -------
        SharedDashboard or None
            Its `link`, with the token of this scheduler process, and the `fingerprint` (SHA-256) of
            the certificate that browsers warn about. None for a cluster without
            `use_dashboard_https`.

        Raises
        ------
        ClusterEnded, ClusterStopped
            When the cluster doesn't run any more.
        VersionMismatch
            When its hosts run a terradask without this dashboard.
        """
        async with self.connection.translated_end():
            if not self.provisioned.settings.get("use_dashboard_https"):
                return None
            public = self.dialer.route == "public"
            return await request_shared_dashboard(
                self.dashboard, self.connection.attachment, public=public
            )

    async def stop(self) -> None:
        """Stop polling the groups and sending secrets."""
        await self.secrets.stop()
        await self.pool.stop()


def workers_of(deployment: Deployment, attachment: Attachment, call: Call) -> Workers:
    """Return the workers of a run, read from its Auto Scaling groups."""
    groups, descriptor = deployment.groups, deployment.descriptor
    pending_launches = PendingLaunches(
        groups,
        call,
        started_at=datetime.datetime.fromisoformat(attachment.run.started_at),
        fallback_seconds=float(
            descriptor.settings.get("spot_fallback_seconds", DEFAULT_FALLBACK_SECONDS)
        ),
    )
    return Workers(
        groups,
        descriptor.worker_groups,
        pending_launches,
        call,
        limiter=deployment.limiter,
        workers_per_host=descriptor.workers_per_host,
    )
