"""What a cluster object shows: its workers, where it is, what it is made of, its events."""

from __future__ import annotations

import asyncio
import contextlib
import html
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from distributed import Client
from distributed.core import Status

from terradask._common.clock import utc_text
from terradask._dask.attached import Attached
from terradask._dask.dashboard import DashboardForward
from terradask._dask.display import closed_page, cluster_page, cluster_text, view_row
from terradask._dask.facade import documented_by
from terradask._dask.health import Health
from terradask._dask.host_workers import JoinedWorkers
from terradask._dask.live import LiveCluster
from terradask._dask.pool import WorkerGroupState
from terradask._dask.request import Request
from terradask._dask.rollback import Origin
from terradask._dask.threads import Threads
from terradask._deployments.deployment import Deployment
from terradask._deployments.events.timeline import Event
from terradask._deployments.run_reports.report import RunReport
from terradask.errors import ClusterClosed, ClusterError, InvalidInput, ReportNotFound
from terradask_host.scaling_policy import ScalingPolicy
from terradask_modules.names import SCHEDULER_GROUP

if TYPE_CHECKING:
    from terradask._deployments.logs.lines import LogLine
    from terradask._deployments.logs.times import Moment


class ClusterFacts:
    """Reads a cluster's parts and changes nothing. `Cluster` makes the parts."""

    status: Any
    asynchronous: bool
    sync: Callable[..., Any]
    _cluster_manager_logs: Any
    _health: Health
    _live: LiveCluster
    _request: Request
    _joined: JoinedWorkers
    _threads: Threads
    _attached: Attached | None

    @property
    def _running(self) -> Attached:
        if self._attached is None:
            raise InvalidInput(
                f"Cluster {self._request.name!r} is not running yet.",
                advice="await it, or use it in `async with`",
            )
        return self._attached

    @property
    def worker_groups(self) -> dict[str, WorkerGroupState]:
        """State of each group of workers: ``workers``, and the named ones."""
        return self._attached.pool.groups if self._attached is not None else {}

    @property
    def adapting(self) -> dict[str, ScalingPolicy]:
        """Group of workers -> between which numbers it scales itself, whichever client has set
        that: ``minimum`` and ``maximum``; without those that don't.
        """
        return dict(self._attached.policies.known or {}) if self._attached is not None else {}

    @property
    def plan(self) -> set[str]:
        """Names of the workers that should exist: instance ids, and ``pending-N`` for those that
        AWS has not launched yet.
        """
        return self._attached.pool.plan if self._attached is not None else set()

    @property
    def requested(self) -> set[str]:
        """Instance ids of the groups' members."""
        return self._attached.pool.requested if self._attached is not None else set()

    @property
    def observed(self) -> set[str]:
        """Instance ids of the workers that have joined the scheduler."""
        return self._joined.hosts

    @property
    def ended(self) -> ClusterError | None:
        """Why this object can't be used any more: the error that its methods raise. None while it
        can, also while the scheduler doesn't answer.
        """
        try:
            self._health.check_open()
        except ClusterClosed as closed:
            return closed
        return self._health.ended

    def worker_names(self) -> list[str]:
        """Names of all Dask workers that have joined, including the one on the scheduler's host."""
        return self._joined.all_names

    @property
    def region(self) -> str:
        """AWS region of the cluster."""
        return self._running.deployment.descriptor.region

    @property
    def zone(self) -> str:
        """Availability zone of the cluster; of its scheduler, if workers may be in
        several zones.
        """
        return self._running.deployment.descriptor.zone

    @property
    def hardware(self) -> dict[str, dict[str, Any]]:
        """Each group's instance types in the order in which they are tried, what was asked for, and
        why they were chosen. Notebooks show it as a table.
        """
        return HardwareTable(self._running.deployment.descriptor.hardware)

    @property
    def origin(self) -> Origin:
        """Whether this object made the cluster, started it, or attached to it."""
        return self._running.provisioned.origin

    @property
    @documented_by(DashboardForward.link)
    def dashboard_link(self) -> str:
        """Link to the dashboard on this machine's loopback, forwarded to the scheduler's host over
        mutual TLS.
        """
        return self._attached.dashboard.link if self._attached is not None else ""

    @property
    def jupyter_link(self) -> str:
        """Link to the notebook server (`jupyter=True`) on this machine's loopback, forwarded to the
        scheduler's host over mutual TLS. Empty for a cluster without one.

        The link contains a token: with it, any code can be run on the cluster, for as long as this
        object is open. ``Client()`` in a notebook is a client of this cluster.
        """
        jupyter = None if self._attached is None else self._attached.jupyter
        return "" if jupyter is None else jupyter.link

    @property
    @documented_by(Attached.shared_dashboard)
    def shared_dashboard(self) -> Any:
        """The dashboard over HTTPS, for people without terradask."""
        self._health.check()
        return self.sync(self._running.shared_dashboard)

    def events(self) -> Any:
        """Return the events of the cluster and its hosts with time, subject, state and reason,
        oldest first.

        Returns
        -------
        list of Event
            Each prints as a line; notebooks show a table, with times in UTC. The states of hosts
            are requested, launched, booting, joined, retiring, failed and gone.
        """
        return self.sync(self._threads.call, lambda: EventTable(self._running.deployment.events()))

    @documented_by(Deployment.logs)
    def logs(
        self,
        *hosts: str,
        since: Moment | None = None,
        until: Moment | None = None,
        pattern: str | None = None,
        level: str | None = None,
        tail: int | None = 10_000,
        run: str | None = None,
    ) -> Any:
        """Return lines of the hosts' logs, oldest first."""
        deployment = self._running.deployment
        return self._read(
            lambda: deployment.logs(
                *hosts, since=since, until=until, pattern=pattern, level=level, tail=tail, run=run
            )
        )

    @documented_by(Deployment.report)
    def report(self, run: str | None = None) -> Any:
        """Return what a run did; without a run's id, the running cluster makes a new report."""
        if self.asynchronous or (run is None and self.status == Status.running):
            return self.sync(self._make_report, run)
        return self._running.deployment.report(run)

    async def _make_report(self, run: str | None) -> RunReport:
        attached, why = self._running, None
        if run is None and self.status == Status.running:
            why = await attached.request_report()
        try:
            return await asyncio.to_thread(attached.deployment.report, run)
        except ReportNotFound as error:
            raise ReportNotFound(self._request.name, run, error.runs, why) from error

    def get_logs(
        self,
        scheduler: bool = True,
        workers: bool | Iterable[str] = True,
        *,
        cluster: bool = False,
    ) -> Any:
        """Return the last run's logs in Dask's own form: those of all its hosts, also of hosts that
        failed, never joined, or are gone. `logs` selects lines.

        Parameters
        ----------
        scheduler
            Whether to return the scheduler's log.
        workers
            Whether to return the workers' logs; or the names of workers, which are instance ids.
        cluster
            Whether to return what Dask's cluster manager logs in this process. By default it isn't.

        Returns
        -------
        distributed.utils.Logs
            ``Scheduler`` and names of workers -> a `distributed.utils.Log`, a text of lines without
            control characters. Of all hosts together, the newest 100,000 lines.

        Raises
        ------
        InvalidInput
            For a name of no worker; with those that have logs.
        AccessDenied, EndpointUnreachable
            As for `logs`.
        """
        own = [line[1] for line in self._cluster_manager_logs] if cluster else None
        words = asked_hosts(scheduler=scheduler, workers=workers)
        deployment = self._running.deployment
        return self._read(
            lambda: dask_logs(deployment.logs(*words, tail=LOG_LINES) if words else (), own)
        )

    def get_client(self) -> Client:
        """Return a `distributed.Client` of the cluster: the current client if it belongs to the
        cluster, else a new one.

        Raises
        ------
        ClusterStopped
            When the cluster doesn't run any more.
        """
        self._health.check()
        with contextlib.suppress(ValueError):
            current = Client.current()
            # Dask compares names, which clusters of two workspaces may share.
            if current.cluster is self:
                return current
        return Client(self)

    def _read(self, read: Callable[[], Any]) -> Any:
        """Read what is there without a loop: also after the cluster is closed."""
        return self.sync(self._threads.call, read) if self.asynchronous else read()

    def __repr__(self) -> str:
        name = self._request.name
        if self._attached is None or self.status != Status.running:
            return f"Cluster({name!r}, {self.status.name})"
        workers = self._joined.workers
        return cluster_text(
            name,
            self.zone,
            self,
            self.worker_groups,
            threads=sum(worker["nthreads"] for worker in workers),
            memory_bytes=sum(worker["memory_limit"] for worker in workers),
        )

    def _repr_html_(self, cluster_status: str | None = None) -> str:
        name = self._request.name
        if self._attached is None or self.status != Status.running:
            return closed_page(name, self.status.name)
        from terradask._deployments.live_drawing import Drawing

        drawing = Drawing(self._live.view(), whole=False).as_mimebundle()
        return cluster_page(
            type(self).__name__,
            name,
            self._joined.scheduler_info,
            dashboard_link=self.dashboard_link,
            status_row=cluster_status or view_row(drawing["text/html"]),
        )


# ---- logs in the form in which Dask's own clusters return them -----------------------------------


#: So many lines of all hosts are returned, the newest: Dask keeps 10,000 of each.
LOG_LINES = 100_000


#: Names of Dask workers: several on a host have a number, the one beside the scheduler a prefix.
_WORKER = re.compile(r"(?:scheduler-)?(i-[0-9a-f]+)(?:-\d+)?", re.ASCII)


def asked_hosts(*, scheduler: bool, workers: bool | Iterable[str]) -> list[str]:
    """Return the words for the hosts that are asked for."""
    from terradask._deployments.logs.question import WORKERS

    named = [workers] if isinstance(workers, str) else workers
    chosen = [WORKERS] if named is True else [_WORKER.sub(r"\1", one) for one in named or ()]
    return [SCHEDULER_GROUP, *chosen] if scheduler else chosen


def dask_logs(lines: Iterable[LogLine], cluster_log: Iterable[str] | None) -> Any:
    """Return each host's text by the name that Dask gives its worker."""
    from distributed.utils import Log, Logs

    texts: dict[str, list[str]] = {} if cluster_log is None else {"Cluster": [*cluster_log]}
    for line in lines:
        name = "Scheduler" if line.group == SCHEDULER_GROUP else line.host
        texts.setdefault(name, []).append(line.plain_text)
    return Logs({name: Log("\n".join(text)) for name, text in texts.items()})


# ---- lists and mappings that notebooks show as tables. All text is escaped -----------------------


class EventTable(list[Event]):
    """Events of a cluster, oldest first."""

    def _repr_html_(self) -> str:
        """Return them as a table, with times in UTC."""
        return _table(
            ("time (UTC)", "subject", "group", "state", "step", "reason"),
            (
                (utc_text(e.at), e.subject, e.group, e.state, e.step or "", e.reason or "")
                for e in self
            ),
        )


class HardwareTable(dict[str, dict[str, Any]]):
    """Instance types of each group, and why they were chosen."""

    def _repr_html_(self) -> str:
        """Return them as a table."""
        return _table(
            ("group", "instance types, in order", "asked for", "reason"),
            (
                (
                    group,
                    ", ".join(found.get("types", ())),
                    ", ".join(
                        f"{name}={value!r}" for name, value in found.get("asked", {}).items()
                    ),
                    found.get("reason", ""),
                )
                for group, found in self.items()
            ),
        )


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    body = "".join(f"<tr>{_cells('td', row)}</tr>" for row in rows)
    return f"<table><thead><tr>{_cells('th', heads)}</tr></thead><tbody>{body}</tbody></table>"


def _cells(tag: str, values: Sequence[object]) -> str:
    texts = ("" if value is None else html.escape(str(value)) for value in values)
    return "".join(f'<{tag} style="text-align: left;">{text}</{tag}>' for text in texts)
