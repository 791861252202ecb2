"""Launch a deployed cluster: start it, and wait for its scheduler, in a zone that has machines."""

from __future__ import annotations

import importlib.metadata
import logging
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from terradask._clusters.attach import Attachment
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
from terradask._observe.keys import check_key_access
from terradask._observe.shortfall import describe_refusal
from terradask._observe.status import DeploymentStatus
from terradask._software.hosts import python_version
from terradask.errors import NoCapacity, VersionMismatch
from terradask_host.documents import LifetimePolicy, Run
from terradask_modules.names import SCHEDULER_GROUP

if TYPE_CHECKING:
    from terradask_stacks.settings import ClusterSettings, WorkerGroupSettings

logger = logging.getLogger("terradask")

#: Receives the status of a starting cluster.
OnStatus = Callable[[Deployment, DeploymentStatus], None]


#: Kinds of problems that another zone may not have. Quotas, keys and accounts are a region's.
ZONAL = frozenset({"capacity", "unsupported", "addresses"})

#: How long a zone that refused before is asked again, before the next one.
_ROUND_SECONDS = 60.0


@dataclass
class ZoneSearch:
    """The zones in which a cluster's machines were requested, until a time limit.

    Times are seconds on one clock.
    """

    #: How long to go on after AWS's first refusal.
    timeout_seconds: float
    #: Zones that the cluster may move to, with its own; empty: it stays.
    zones: Collection[str]
    #: Zones that have refused, in the order of their first refusal.
    refused: list[str] = field(default_factory=list)
    _first_at: float | None = None

    def patience_seconds(self, now: float) -> float:
        """Return how long the present zone is asked after it has refused: not at all, while there
        is a zone that hasn't been asked.
        """
        left = self.left_seconds(now)
        if len(self.zones) < 2:
            return left
        return 0.0 if len(self.refused) + 1 < len(self.zones) else min(_ROUND_SECONDS, left)

    def left_seconds(self, now: float) -> float:
        """Return how long machines are still requested."""
        since = now if self._first_at is None else self._first_at
        return max(0.0, since + self.timeout_seconds - now)

    def moves_after(self, refusal: NoCapacity, zone: str, now: float) -> bool:
        """Note that a zone refused; return whether to move to another."""
        self._first_at = now if self._first_at is None else self._first_at
        if zone not in self.refused:
            self.refused.append(zone)
        return len(self.zones) > 1 and refusal.kinds <= ZONAL and self.left_seconds(now) > 0

    def stays_in(self, zone: str) -> None:
        """Note that no other zone has what the cluster needs."""
        self.zones = {zone}

    def describe(self) -> str:
        """Return which zones were asked, for the last error."""
        return f"AWS was asked in {', '.join(self.refused)}, one after another"


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
            made.deployment._starter.begin(run_settings)
            self._report_planned(run_settings)
            # Before the origin requires a rollback.
            self._check_start()
            made.origin = "started"
        with phase(self.progress, "start", made.deployment.name):
            run = made.deployment._starter.start(
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


#: Packages that must match: Dask's protocol has no version, and results are pickled.
SAME_VERSION = ("dask", "distributed")


def check_versions(cluster: str, attachment: Attachment) -> None:
    """Check that client and cluster have the same versions. Raises `VersionMismatch`."""
    here = {"python": python_version(), **{p: importlib.metadata.version(p) for p in SAME_VERSION}}
    there = {"python": attachment.scheduler.python, **attachment.scheduler.packages}
    there = {
        name: ".".join(v.split(".")[:2]) if name == "python" else v for name, v in there.items()
    }
    if any(there.get(name) != version for name, version in here.items()):
        raise VersionMismatch(
            f"Client and cluster {cluster!r} run different versions.",
            cluster=cluster,
            client=here,
            hosts={name: there.get(name, "none") for name in here},
            advice=(
                "install the cluster's versions on this machine, or stop and start it from here: "
                f"terradask stop {cluster}"
            ),
        )
