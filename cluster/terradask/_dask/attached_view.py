"""Collect an attached cluster's view from the data of its parts, and read its workers' use."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from terradask._dask import commands
from terradask._dask.attached import Attached
from terradask._dask.connection import SchedulerConnection
from terradask._dask.host_workers import JoinedWorkers, host_of, is_extra
from terradask._observe import shortfall
from terradask._observe.build_live_view import JoinedWorker, live_view
from terradask._observe.live_view import LiveView, Price, Use
from terradask._observe.logs.console_link import console_link
from terradask._observe.status import DeploymentStatus
from terradask.errors import VersionMismatch
from terradask_host.commands import ReadUse
from terradask_host.documents import HostReport
from terradask_host.gauges import number

logger = logging.getLogger("terradask")


@dataclass(eq=False)
class UseReader:
    """Reads what workers use from the scheduler, as long as its hosts know the command."""

    connection: SchedulerConnection
    last: Use | None = field(default=None, init=False)
    _is_known: bool = field(default=True, init=False)

    async def read(self) -> None:
        """Read it once, also while the cluster is closing. Raises as `commands.send`, but not
        `VersionMismatch`.
        """
        if not self._is_known:
            return
        scheduler, name = self.connection.scheduler, self.connection.health.name
        try:
            self.last = use_of(await commands.send(scheduler, name, ReadUse()))
        except VersionMismatch:
            # The hosts run an older terradask.
            self._is_known = False


def use_of(answer: Mapping[str, Any]) -> Use:
    """Return the answer to `ReadUse`, of which tasks can write any part."""
    seconds = ("idle_timeout_seconds", "no_client_timeout_seconds")
    idle, alone = (None if answer[each] is None else number(answer[each]) for each in seconds)
    return Use(
        {str(host): (number(busy), number(used)) for host, (busy, used) in answer["hosts"].items()},
        {str(state): int(number(count)) for state, count in answer["tasks"].items()},
        int(number(answer["done"])),
        number(answer["idle_seconds"]),
        idle,
        alone,
    )


def attached_view(
    attached: Attached,
    joined: JoinedWorkers,
    since: Mapping[str, str],
    *,
    now: datetime,
    price: Price,
    use: Use | None,
    types: Mapping[str, str],
) -> LiveView:
    """Return an attached cluster's view; `since` maps hosts to the time of their first worker,
    `types` to their instance types.
    """
    deployment, run = attached.deployment, attached.connection.attachment.run
    short, pools = attached.pool.shortfall, deployment.descriptor.pools
    return live_view(
        _status(attached, joined, since, types),
        pools,
        now=now,
        run=run,
        price=price,
        workers=list(_workers(joined)),
        waits=() if short is None else (shortfall.describe(short, pools),),
        links=list(_links(attached)),
        use=use,
    )


def _links(attached: Attached) -> Iterator[tuple[str, str]]:
    """Yield labels and addresses. That of the dashboard contains a token."""
    yield "dashboard", attached.dashboard.link
    if attached.jupyter is not None:
        yield "notebooks", attached.jupyter.link
    workspace = attached.provisioned.workspace.settings.workspace.name
    logs = console_link(attached.deployment.descriptor.region, workspace)
    if logs is not None:
        yield "logs in CloudWatch", logs


def _status(
    attached: Attached, joined: JoinedWorkers, since: Mapping[str, str], types: Mapping[str, str]
) -> DeploymentStatus:
    attachment, groups = attached.connection.attachment, attached.pool.described
    run_id, scheduler = attachment.run.run_id, attachment.scheduler
    hosts, at = joined.hosts, scheduler.started_at or ""
    reports = [
        HostReport(scheduler.instance_id, "scheduler", "scheduler", "running", None, at, run_id),
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
    reports = [
        replace(each, instance_type=each.instance_type or types.get(each.instance_id))
        for each in reports
    ]
    status = attached.deployment.status_with(groups, attachment.run, scheduler, reports)
    return replace(status, state="running", adapting=attached.policies.known or {})


def _workers(joined: JoinedWorkers) -> Iterator[JoinedWorker]:
    for worker in joined.workers:
        name = str(worker["name"])
        host = "" if is_extra(name) else host_of(name)
        yield JoinedWorker(host, worker["nthreads"], worker["memory_limit"] or 0)
