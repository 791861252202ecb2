"""The public methods of a deployment that read what it is doing and did."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from terradask._deployments.documents import read_host_reports
from terradask._deployments.events.gather import cluster_events
from terradask._deployments.events.timeline import Event
from terradask._deployments.record import ClusterRecord
from terradask._deployments.snapshot import Snapshot, take_snapshot
from terradask._deployments.status import (
    RUN_AT,
    DeploymentStatus,
    lacking_groups,
    read_status,
    reads_of,
    recent_failures,
    status_of,
    watchdog_of,
)
from terradask._deployments.store import HOSTS
from terradask.errors import ClusterStopped
from terradask_host.documents import HostReport, Run, SchedulerAddress
from terradask_host.rules.autoscaling_groups import Group
from terradask_host.rules.launch_problem import LaunchProblem


class ReadableState:
    """Reads a cluster's runs, status and events; `Deployment` makes the record."""

    _record: ClusterRecord

    def run(self) -> Run | None:
        """Return the run that was started last, even if it has ended by itself; None if the cluster
        was stopped.
        """
        return self._record.run()

    def current_run(self) -> Run | None:
        """Return the active run; None if the cluster is stopped, or its run ended by itself: idle,
        or its hosts gone.
        """
        return self._record.current_run()

    def status(self) -> DeploymentStatus:
        """Return the cluster's status.

        Returns
        -------
        DeploymentStatus

        Raises
        ------
        ClusterNotFound
            When the cluster isn't deployed.
        """
        return read_status(self._record)

    def status_with(
        self,
        groups: Mapping[str, Group],
        run: Run,
        scheduler: SchedulerAddress,
        hosts: Sequence[HostReport],
    ) -> DeploymentStatus:
        """Return the status that follows from what was read before; it makes no call."""
        return status_of(self._record, [groups, run, scheduler, hosts, False])

    def watch(self) -> StatusWatch:
        """Return what reads the status again and again, by two calls a second."""
        return StatusWatch(self._record)

    def events(self) -> list[Event]:
        """Return the events of the cluster and its hosts, oldest first: of the last run and of
        earlier ones.

        Returns
        -------
        list of Event
            Each with ``at``, ``subject``, ``state``, ``step`` and ``reason``.

        Raises
        ------
        ClusterNotFound
            When the cluster isn't deployed.

        Notes
        -----
        Permissions needed, besides those of `status`: ``autoscaling:DescribeScalingActivities``.
        """
        return cluster_events(self._record)

    def reports(self) -> list[HostReport]:
        """Return the report of each host."""
        return self._record.reports()

    def why_stopped(self, run_id: str | None = None) -> ClusterStopped:
        """Return the error with the reason why the cluster doesn't run: it was stopped, or has
        ended by itself.

        Parameters
        ----------
        run_id
            The run that the caller was attached to. By default the one that was started last.
        """
        return self._record.why_stopped(run_id)

    def snapshot(self, also: Callable[[], object]) -> Snapshot:
        """Read what a client needs to decide what to do, and to connect, in one round of calls.

        Parameters
        ----------
        also
            Called meanwhile. Its failure doesn't matter.
        """
        return take_snapshot(self._record, also)


# ---- A cluster's status again and again, by two calls a second -----------------------------------


@dataclass(eq=False, repr=False)
class StatusWatch:
    """Reads a cluster's status; of hosts' reports, those alone that have changed."""

    record: ClusterRecord
    #: The run that was read last.
    run: Run | None = field(default=None, init=False)
    _versions: dict[str, str] = field(default_factory=dict, init=False)
    _reports: dict[str, HostReport] = field(default_factory=dict, init=False)

    def read(self) -> DeploymentStatus:
        """Return the status now; it takes some seconds, because calls wait for their turn.

        Raises `ClusterNotFound`. The permissions needed are those of `Deployment.status`.
        """
        found: list[Any] = []
        for read in reads_of(self.record, self._read_reports):
            with self.record.limiter.slot():
                found.append(read())
        self.run = found[RUN_AT]
        failures: dict[str, tuple[LaunchProblem, ...]] = {}
        for name in lacking_groups(found):
            with self.record.limiter.slot():
                failures[name] = recent_failures(self.record, name, found[RUN_AT])
        with self.record.limiter.slot():
            fires_at = watchdog_of(self.record, found)
        return status_of(self.record, found, failures, fires_at)

    def _read_reports(self) -> list[HostReport]:
        objects, before = self.record.objects, self._versions
        self._versions = objects.host_versions()
        changed = [i for i, version in self._versions.items() if before.get(i) != version]
        documents = objects.read_all([f"{HOSTS}{each}.json" for each in changed])
        fresh = read_host_reports(document for document in documents if document is not None)
        known = {**self._reports, **{report.instance_id: report for report in fresh}}
        self._reports = {i: known[i] for i in sorted(self._versions) if i in known}
        return list(self._reports.values())
