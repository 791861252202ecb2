"""The live view of an attached cluster, from what its parts have read; it makes no call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from terradask._dask.attached import Attached
from terradask._dask.host_workers import JoinedWorkers, host_of, is_extra
from terradask._deployments.live_view import JoinedWorker, LiveView, live_view
from terradask._deployments.shortfall import describe
from terradask._deployments.status import DeploymentStatus
from terradask_host.documents import HostReport, SchedulerAddress


def attached_view(
    attached: Attached,
    joined: JoinedWorkers,
    since: Mapping[str, str],
    *,
    now: datetime,
    hourly_usd: Decimal | None,
) -> LiveView:
    """Return what to show; `since` has when the workers of each host were first seen."""
    deployment, run = attached.deployment, attached.connection.attachment.run
    shortfall, pools = attached.pool.shortfall, deployment.descriptor.pools
    short = () if shortfall is None else (describe(shortfall, pools),)
    return live_view(
        _status(attached, joined, since),
        pools,
        now=now,
        run=run,
        hourly_usd=hourly_usd,
        workers=list(_workers(joined)),
        waits=short,
        dashboard_link=attached.dashboard.link,
    )


def _status(
    attached: Attached, joined: JoinedWorkers, since: Mapping[str, str]
) -> DeploymentStatus:
    attachment, groups = attached.connection.attachment, attached.pool.described
    run_id, scheduler = attachment.run.run_id, attachment.scheduler
    hosts = joined.hosts
    reports = [
        _scheduler_report(scheduler, run_id),
        *(
            HostReport(host, "worker", name, "running", None, since.get(host, ""), run_id)
            for name, group in groups.items()
            for host in group.active_ids
            if host in hosts
        ),
        *(
            each
            for each in attached.waiter.reports
            if each.role == "worker" and each.instance_id not in hosts
        ),
    ]
    status = attached.deployment.status_with(groups, attachment.run, scheduler, reports)
    return replace(status, state="running", adapting=attached.policies.known or {})


def _scheduler_report(scheduler: SchedulerAddress, run_id: str) -> HostReport:
    at = scheduler.started_at or ""
    return HostReport(scheduler.instance_id, "scheduler", "scheduler", "running", None, at, run_id)


def _workers(joined: JoinedWorkers) -> Iterator[JoinedWorker]:
    for worker in joined.workers:
        name = str(worker["name"])
        host = "" if is_extra(name) else host_of(name)
        yield JoinedWorker(host, worker["nthreads"], worker["memory_limit"] or 0)
