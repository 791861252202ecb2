"""The public methods of a deployment that read what it is doing and did."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from terradask._deployments.events.gather import cluster_events
from terradask._deployments.events.timeline import Event
from terradask._deployments.record import ClusterRecord
from terradask._deployments.snapshot import Snapshot, take_snapshot
from terradask._deployments.status import DeploymentStatus, read_status, status_of
from terradask._deployments.status_watch import StatusWatch
from terradask.errors import ClusterStopped
from terradask_host.documents import HostReport, Run, SchedulerAddress
from terradask_host.rules.autoscaling_groups import Group


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
