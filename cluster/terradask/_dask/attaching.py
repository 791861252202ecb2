"""Attach to a running cluster: connect to its scheduler, and create the parts around that."""

from __future__ import annotations

import datetime
from contextlib import AsyncExitStack
from functools import partial

from terradask._aws.credentials import lend
from terradask._clusters.pending_launches import PendingLaunches
from terradask._common.progress import Progress
from terradask._dask.adaptive import ScalingPolicies
from terradask._dask.attached import Attached
from terradask._dask.connection import SchedulerConnection
from terradask._dask.dashboard import DashboardForward, JupyterForward
from terradask._dask.dial import dialer_for
from terradask._dask.health import Health, RunCheck
from terradask._dask.host_workers import JoinedWorkers
from terradask._dask.job_requests import JobRequests
from terradask._dask.package_updates import PackageUpdates
from terradask._dask.pool import WorkerPool
from terradask._dask.provision import Provisioned
from terradask._dask.reach import ReachTests
from terradask._dask.request import Request
from terradask._dask.secrets import SecretRelay
from terradask._dask.threads import Call
from terradask._dask.waiting import WorkerWaiter
from terradask._observe.status import HostReports


async def attached_to(
    provisioned: Provisioned,
    request: Request,
    health: Health,
    joined: JoinedWorkers,
    *,
    call: Call,
    progress: Progress,
) -> Attached:
    """Connect to the scheduler, and create the parts around that connection."""
    # Loads pydantic.
    from terradask._network.baseline import read_baseline

    deployment, run_id = provisioned.deployment, provisioned.attachment.run.run_id
    dialer = dialer_for(provisioned, call)
    async with AsyncExitStack() as cleanup:
        cleanup.push_async_callback(dialer.close)
        attachment, comm = await dialer.reach(provisioned.attachment)
        scheduler = dialer.scheduler_at(comm.peer_address)
        cleanup.push_async_callback(scheduler.close_rpc)
        # The connection of `reach` becomes the first one of the pool.
        scheduler.comms[comm] = True
        run = RunCheck(deployment, run_id, health, call)
        connection = SchedulerConnection(
            dialer, attachment, scheduler, health=health, joined=joined, run=run
        )
        policies = ScalingPolicies(connection)
        started_at = datetime.datetime.fromisoformat(attachment.run.started_at)
        pool = WorkerPool(
            deployment,
            policies,
            PendingLaunches(deployment.groups, call, started_at=started_at),
            joined=joined,
            health=health,
            run=run,
            call=call,
        )
        cleanup.pop_all()
    return Attached(
        provisioned,
        dialer,
        connection,
        policies,
        pool,
        WorkerWaiter(
            pool,
            HostReports(deployment.objects, run_id),
            capacity_timeout_seconds=provisioned.settings.capacity_timeout_seconds,
        ),
        SecretRelay(
            connection,
            health,
            call,
            partial(lend, deployment.aws, request.credentials_duration_seconds),
        ),
        DashboardForward(
            partial(dialer.dashboard, attachment), dialer.connection_args["ssl_context"]
        ),
        JupyterForward(partial(dialer.dashboard, attachment), dialer.connection_args["ssl_context"])
        if provisioned.settings.jupyter
        else None,
        PackageUpdates(deployment, connection, call, progress),
        JobRequests(connection, deployment, call),
        ReachTests(
            partial(read_baseline, deployment.aws, deployment.bucket),
            connection,
            pool,
            call,
            progress,
        ),
    )
