"""Launch a deployed cluster: start it, and wait for its scheduler, in a zone that has machines."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import TYPE_CHECKING

from terradask._clusters.attachment import Attachment
from terradask._clusters.deployment import Deployment
from terradask._clusters.lifetime import lifetime_policy
from terradask._clusters.pending_launches import CapacityWait
from terradask._clusters.planned_hosts import planned_hosts
from terradask._clusters.worker_counts import numbers_at_start
from terradask._common.progress import Message, Progress, Warned, phase
from terradask._dask.connectivity import check_route
from terradask._dask.ignored import warn_without_hashes
from terradask._dask.request import Request
from terradask._dask.rollback import Made
from terradask._dask.same_versions import check_versions
from terradask._dask.zone_search import ZoneSearch
from terradask._observe.keys import check_key_access
from terradask._observe.shortfall import describe_refusal
from terradask._observe.status import DeploymentStatus
from terradask.errors import NoCapacity
from terradask_host.documents import LifetimePolicy, Run
from terradask_modules.names import SCHEDULER_GROUP

if TYPE_CHECKING:
    from terradask_stacks.settings import ClusterSettings, WorkerGroupSettings

logger = logging.getLogger("terradask")

#: Receives the status of a starting cluster.
OnStatus = Callable[[Deployment, DeploymentStatus], None]


def check_not_cancelled(name: str, cancelled: threading.Event) -> None:
    """Raise `InterruptedError` if the creation of a cluster was cancelled."""
    if cancelled.is_set():
        raise InterruptedError(f"creation of cluster {name!r} was cancelled")


@dataclass(eq=False, repr=False)
class Launch:
    """The launch of a deployed cluster by a request, with the settings in force.

    `made` is what a rollback undoes: a launch notes there when the run becomes this client's, and
    the deployment of another zone.
    """

    request: Request
    settings: ClusterSettings
    made: Made
    progress: Progress
    _: KW_ONLY
    on_status: OnStatus
    cancelled: threading.Event

    def run(self) -> Attachment:
        """Start the cluster and attach to it; move it to another zone if AWS has no machines."""
        search = ZoneSearch(self.settings.capacity_timeout_seconds, self._zones())
        run = self.start()
        self.warn_without_hashes(run)
        while True:
            try:
                return self.attach(run, search.patience_seconds(time.monotonic()))
            except NoCapacity as refusal:
                zone = self.made.deployment.descriptor.zone
                if not search.moves_after(refusal, zone, time.monotonic()):
                    if len(search.refused) > 1:
                        refusal.add_note(search.describe())
                    raise
                self._report_refusal(refusal, search.left_seconds(time.monotonic()))
            self._move()
            if self.made.deployment.descriptor.zone == zone:
                search.stays_in(zone)
            run = self.start()

    def start(self) -> Run:
        """Start a run, or return another client's; note in `made` whose it is."""
        from terradask._software.local_modules import unsent_modules_variable

        made, settings = self.made, self.settings
        check_not_cancelled(self.request.name, self.cancelled)
        check_route(made.workspace, settings)
        environ = {**unsent_modules_variable(settings), **settings.environ}
        run_settings = settings.model_copy(
            update={"environ": environ, "worker_groups": self._worker_groups()}
        )
        if made.origin != "created":
            made.deployment._begin_start(run_settings)
            self._report_planned(run_settings)
            # Before the origin requires a rollback.
            self._check_start()
            made.origin = "started"
        with phase(self.progress, "start", made.deployment.name):
            run = made.deployment._start_as(
                lambda deployed: run_settings,
                life=self.life(),
                # A deployment by this client has checked them already.
                check_quotas=made.origin != "created",
                warn=lambda text: self.progress(Warned(text)),
            )
        if made.origin == "started" and run.run_id != made.deployment.started_run_id:
            # Another client was faster: the run is not this client's to stop.
            made.origin, made.is_others = "attached", True
        return run

    def attach(
        self,
        run: Run | None,
        capacity_timeout_seconds: float = 0.0,
        *,
        found: Attachment | None = None,
    ) -> Attachment:
        """Wait for the run's scheduler, unless it was `found`. Raises as `Deployment.attach`, and
        `VersionMismatch`.
        """
        deployment = self.made.deployment
        needs_workers = self.made.origin != "attached" and bool(self.settings.wait_for_workers)
        with phase(self.progress, "attach", deployment.name):
            attachment = found or deployment.attach(
                timeout_seconds=self.settings.create_timeout_seconds,
                on_wait=partial(self._report_hosts, deployment),
                cancelled=self.cancelled.is_set,
                run=run,
                capacity=CapacityWait(
                    capacity_timeout_seconds, needs_workers, self._report_refusal
                ),
            )
        check_versions(deployment.name, attachment)
        return attachment

    def life(self) -> LifetimePolicy:
        """Return the policy by which the run ends."""
        closes = self.request.shutdown_on_close is not False
        declared = self.request.name in self.made.workspace.settings.clusters
        return lifetime_policy(
            self.settings,
            closes_with_client=closes,
            destroyed_after=closes and self.made.origin == "created" and not declared,
        )

    def warn_without_hashes(self, run: Run | None) -> None:
        """Log a warning if hosts install packages by version although hashes were requested."""
        requested = self.made.workspace.settings.cluster_named(self.request.name)
        warn_without_hashes(self.request.name, run, requested)

    def _report_planned(self, settings: ClusterSettings) -> None:
        """Report the hosts of a start, which this can't prevent."""
        from terradask._clusters.limits import deployed_members

        descriptor = self.made.deployment.descriptor
        try:
            numbers = {SCHEDULER_GROUP: 1, **numbers_at_start(descriptor, settings)}
            planned = planned_hosts(descriptor.cluster, deployed_members(descriptor), numbers)
        except Exception:
            logger.debug("the hosts of the start aren't known", exc_info=True)
            return
        self.progress(planned)

    def _check_start(self) -> None:
        from terradask._dask.package_check import check_packages

        made, settings = self.made, self.settings
        descriptor = made.deployment.descriptor
        if settings.private_to_creator:
            check_key_access(made.workspace.aws, descriptor)
        if not descriptor.lock.get("container"):
            check_packages(
                made.deployment,
                settings,
                made.workspace.root,
                architecture=descriptor.architecture,
                progress=self.progress,
            )

    def _worker_groups(self) -> dict[str, WorkerGroupSettings]:
        """Return the groups of workers with the requested numbers."""
        workspace = self.made.workspace
        requested = workspace.settings.cluster_named(self.request.name).worker_groups
        tables = self.request.given.get("worker_groups", {})
        return {
            name: group.model_copy(update={"n_workers": requested[name].n_workers})
            if "n_workers" in tables.get(name, {})
            else group
            for name, group in self.settings.worker_groups.items()
        }

    def _zones(self) -> frozenset[str]:
        """Return the zones that the cluster may move to: none, if another plan was reviewed."""
        settings = self.settings
        if (
            self.made.origin != "created"
            or not settings.use_best_zone
            or settings.zone_name
            or settings.has_reservation
        ):
            return frozenset()
        return frozenset(self.made.workspace.baseline().zones)

    def _move(self) -> None:
        """Deploy the stopped cluster in the zone that is best now."""
        made = self.made
        check_not_cancelled(self.request.name, self.cancelled)
        made.deployment.stop()
        made.workspace.apply(made.workspace.plan_launch(self.request.name, refresh=True))
        made.deployment = made.workspace.deployment(self.request.name)
        check_not_cancelled(self.request.name, self.cancelled)

    def _report_refusal(self, refusal: NoCapacity, left_seconds: float) -> None:
        self.progress(Message(describe_refusal(refusal, left_seconds), kept=True))

    def _report_hosts(self, deployment: Deployment, status: DeploymentStatus) -> None:
        self.on_status(deployment, status)
        for report in status.hosts:
            self.progress(Message(f"scheduler: {report.describe()}"))
