"""Provision a cluster from a request: find or deploy it, start it, and wait for its scheduler.

All calls block: they run in the caller's thread, which receives Ctrl-C, or in a worker thread under
asyncio.
"""

from __future__ import annotations

import importlib.metadata
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from terradask._aws.credentials import lend
from terradask._clusters.attachment import Attachment
from terradask._clusters.deployment import Deployment
from terradask._clusters.lifetime import lifetime_policy
from terradask._clusters.snapshot import Snapshot
from terradask._common.polling import wait_until
from terradask._common.progress import Message, Progress, Warned, phase
from terradask._common.side_by_side import side_by_side
from terradask._common.sigterm import terminated_in_order
from terradask._dask.connectivity import (
    check_route,
    client_settings,
    needs_own_address,
    with_own_address,
)
from terradask._dask.decision import (
    Decision,
    check_same_structure,
    closing_error,
    decide,
    structure_given,
)
from terradask._dask.ignored import warn_of_ignored, warn_without_hashes
from terradask._dask.request import Request
from terradask._dask.rollback import Origin, note_left_behind, note_rolled_back, roll_back
from terradask._dask.zone_search import ZoneSearch
from terradask._observe.keys import check_key_access
from terradask._observe.shortfall import describe_refusal
from terradask._observe.status import DeploymentStatus
from terradask._observe.store import STATE_LOCK
from terradask._software.hosts import python_version
from terradask.errors import (
    ClusterStopped,
    FolderBusy,
    NoCapacity,
    PlanChanged,
    StalePlan,
    StateLocked,
    VersionMismatch,
)
from terradask_host.documents import LifetimePolicy, Run
from terradask_host.rules.autoscaling_groups import Group
from terradask_stacks.errors import SettingsError

if TYPE_CHECKING:
    from terradask._workspace.workspace import Workspace
    from terradask_stacks.settings import ClusterSettings, WorkerGroupSettings


#: Between two polls.
POLL_SECONDS = 1.0
_BETWEEN_SECONDS = 15.0

#: The client that deploys a cluster starts it at once; after this time this client starts it.
_START_SECONDS = 15.0


def wait_for_deployment(
    deployment: Deployment,
    *,
    seconds: float,
    poll_seconds: float,
    check_cancelled: Callable[[], None],
    between_seconds: float = _BETWEEN_SECONDS,
) -> bool:
    """Wait for another client to deploy the cluster; return whether it did.

    The state is unlocked between a plan and its apply: only after `between_seconds` without a lock,
    no client is deploying the cluster.
    """
    last_locked = time.monotonic()

    def over() -> bool:
        nonlocal last_locked
        if STATE_LOCK in deployment.objects.names(STATE_LOCK):
            last_locked = time.monotonic()
        return deployment.exists or time.monotonic() - last_locked > between_seconds

    ended = wait_until(
        over, limit_seconds=seconds, pause_seconds=poll_seconds, on_wait=check_cancelled
    )
    return ended and deployment.exists


def wait_for_start(
    deployment: Deployment, *, poll_seconds: float, check_cancelled: Callable[[], None]
) -> None:
    """Let the client that deployed the cluster start it, so that it ends with that client."""
    wait_until(
        lambda: deployment.current_run() is not None,
        limit_seconds=_START_SECONDS,
        pause_seconds=poll_seconds,
        on_wait=check_cancelled,
    )


logger = logging.getLogger("terradask")


#: Receives the status of a starting cluster.
OnStatus = Callable[[Deployment, DeploymentStatus], None]

#: The AWS clients that a snapshot of a cluster needs.
_CLIENTS = ("s3", "secretsmanager", "autoscaling")

#: Most attempts to deploy a cluster while other clients deploy it and roll it back.
_ROUNDS = 3


def _deployment(workspace: Workspace, name: str) -> Deployment:
    workspace.aws.expect_account()
    return workspace.deployment(name)


@dataclass(frozen=True)
class Provisioned:
    """A running cluster, its origin, and the settings in force."""

    workspace: Workspace
    deployment: Deployment
    attachment: Attachment
    origin: Origin
    settings: ClusterSettings
    #: The groups, if they were read together with the attachment.
    groups: Mapping[str, Group] | None = None

    def learn_environment(self) -> None:
        """Record the environment that the hosts have built, if possible."""
        try:
            self.deployment.learn_environment(self.attachment)
        except Exception:
            # The next run builds it again.
            logger.debug(
                "cluster %s: its environment isn't known", self.deployment.name, exc_info=True
            )


class Provisioner:
    """Provision the cluster of a request, or roll back.

    Parameters
    ----------
    on_status
        Called with each status of a starting cluster.
    poll_seconds
        Between two polls of a cluster that another client deploys.
    """

    def __init__(
        self,
        request: Request,
        progress: Progress,
        *,
        on_status: OnStatus = lambda deployment, status: None,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self._request = request
        self._progress = progress
        self._on_status = on_status
        self._poll_seconds = poll_seconds
        self._cancelled = threading.Event()
        self._workspace: Workspace | None = None
        self._deployment: Deployment | None = None
        self._origin: Origin = "attached"
        self._rolling_back = False
        self._reported: set[str] = set()

    def cancel(self) -> None:
        """Make `run`, in another thread, roll back and end soon."""
        self._cancelled.set()
        if self._workspace is not None and not self._rolling_back:
            self._workspace.cancel()

    def run(self) -> Provisioned:
        """Find or create the cluster and wait for its scheduler. Raises `TerradaskError`."""
        from terradask._software.package_sync import locked_once

        with terminated_in_order(), locked_once():
            try:
                return self._run()
            except BaseException as error:
                if isinstance(error, SettingsError):
                    error.name_as(self._request.typed)
                self.roll_back_after(error)
                raise

    def roll_back_after(self, error: BaseException) -> None:
        """Roll back this request's deployment or start after an error, and add a note to the error;
        later calls do nothing. The caller raises that error, unless the rollback is interrupted.

        Raises `KeyboardInterrupt`, `SystemExit`.
        """
        workspace, deployment, origin = self._workspace, self._deployment, self._origin
        name, self._origin = self._request.name, "attached"
        if workspace is None or deployment is None or origin == "attached":
            return
        self._rolling_back = True
        try:
            roll_back(workspace, deployment, origin, self._progress)
        except BaseException as second:
            note_left_behind(error, name, origin, second)
            if isinstance(error, Exception) and not isinstance(second, Exception):
                raise second from error
        else:
            note_rolled_back(error, name, origin)

    def _run(self) -> Provisioned:
        from terradask._workspace.workspace import Workspace

        if needs_own_address(self._request.given):
            request = self._request
            loaded = Workspace.load(request.path, workspace=dict(request.workspace)).settings
            given = with_own_address(
                request.given,
                loaded.workspace.own_address_url,
                loaded.cluster_named(request.name),
            )
            self._request = replace(request, given=given)
        request = self._request
        workspace = Workspace.load(request.path, progress=self._progress, **self._overrides())
        # The bucket's name needs the account: clients are created during that call.
        begun: list[Callable[[], Any]] = [lambda: _deployment(workspace, request.name)]
        begun += (partial(workspace.aws.client, name) for name in _CLIENTS)
        deployment: Deployment = side_by_side(begun, 2)[0]
        self._workspace, self._deployment = workspace, deployment
        if request.credentials == "local":
            # Without credentials to lend, fail before resources are created.
            lend(workspace.aws, request.credentials_duration_seconds)
        found = deployment.snapshot(workspace.baseline)
        # By now AWS has named the credentials' account; the data must belong to it.
        workspace.aws.confirm_account()
        if found.closing:
            if request.attach or request.create is False:
                raise closing_error(request.name)
            with phase(self._progress, "destroy", request.name):
                workspace.destroy_cluster(request.name)
            deployment = self._deployment = workspace.deployment(request.name)
            found = deployment.snapshot(workspace.baseline)
        requested = workspace.settings.cluster_named(request.name)
        rounds = 0
        while (decision := self._decision(deployment, found)) == "deploy":
            rounds += 1
            # Use another client's deployment; if that client rolls back, try again.
            if self._deploy(
                workspace,
                deployment,
                wait_seconds=requested.create_timeout_seconds,
                is_last=rounds == _ROUNDS,
            ):
                break
            found = deployment.snapshot(workspace.baseline)
        deployed = deployment.descriptor.cluster_settings
        if self._origin != "created":
            structure = request.structure
            check_same_structure(
                request.name,
                *(structure_given(each, structure) for each in (requested, deployed)),
            )
        own = {name: getattr(requested, name) for name in client_settings(request.given, requested)}
        settings = deployed.model_copy(update=own)
        groups = None
        if decision != "attach":
            deployment, attachment = self._launch(workspace, deployment, settings)
        else:
            attachment = self._attach_to(found, workspace, deployment, settings)
            groups = None if found.attachment is None else found.groups
        if self._origin == "created" and request.name in workspace.settings.clusters:
            # A cluster declared in the settings is kept: closing stops it.
            self._origin = "started"
        return Provisioned(workspace, deployment, attachment, self._origin, settings, groups)

    def _overrides(self) -> dict[str, Any]:
        request = self._request
        sections = {"workspace": dict(request.workspace), "cluster": dict(request.given)}
        return {name: given for name, given in sections.items() if given}

    def _decision(self, deployment: Deployment, snapshot: Snapshot) -> Decision:
        create, attach = self._request.create, self._request.attach
        try:
            return decide(deployment.name, snapshot.found, create=create, attach=attach)
        except ClusterStopped as stopped:
            # The cluster may have ended by itself, with a reason.
            raise deployment.why_stopped() from stopped

    def _deploy(
        self,
        workspace: Workspace,
        deployment: Deployment,
        *,
        wait_seconds: float,
        is_last: bool = True,
    ) -> bool:
        """Deploy the cluster, or wait for another client's deployment; return whether this client
        deployed it.
        """
        # Fail before resources are created, not at the start.
        cluster = workspace.settings.cluster_named(self._request.name)
        if cluster.container is None:
            architecture = "arm64" if cluster.expects_arm else "x86_64"
            self._check_packages(deployment, cluster, workspace, architecture)
        check_route(workspace, cluster)
        try:
            plan = workspace.plan_launch(self._request.name)
            self._check_cancelled()
            if not deployment.exists:
                # From here on resources may exist, even if Terraform fails.
                self._origin = "created"
                workspace.apply(plan)
                return True
        except (FolderBusy, PlanChanged, StalePlan, StateLocked):
            # The cluster belongs to another client: this one must not destroy it.
            self._origin = "attached"
            self._progress(Message(f"{deployment.name}: another client is deploying it; waiting"))
            if not wait_for_deployment(
                deployment,
                seconds=wait_seconds,
                poll_seconds=self._poll_seconds,
                check_cancelled=self._check_cancelled,
            ):
                if is_last:
                    raise
                return False
        wait_for_start(
            deployment, poll_seconds=self._poll_seconds, check_cancelled=self._check_cancelled
        )
        return False

    def _check_start(
        self, deployment: Deployment, settings: ClusterSettings, workspace: Workspace
    ) -> None:
        descriptor = deployment.descriptor
        if settings.private_to_creator:
            check_key_access(workspace.aws, descriptor)
        if not descriptor.lock.get("container"):
            self._check_packages(deployment, settings, workspace, descriptor.architecture)

    def _check_packages(
        self,
        deployment: Deployment,
        settings: ClusterSettings,
        workspace: Workspace,
        architecture: str,
    ) -> None:
        from terradask._dask.package_check import check_packages

        check_packages(
            deployment,
            settings,
            workspace.root,
            architecture=architecture,
            begin=lambda text: self._progress(Message(text)),
            report=lambda text: self._report_once(Message(text, kept=True)),
            warn=self._warn,
        )

    def _warn(self, text: str) -> None:
        self._report_once(Warned(text))

    def _report_once(self, event: Message | Warned) -> None:
        """Report an event once: both the check and the start may raise it."""
        if event.text not in self._reported:
            self._reported.add(event.text)
            self._progress(event)

    def _start(
        self, deployment: Deployment, settings: ClusterSettings, workspace: Workspace
    ) -> Run:
        from terradask._software.local_modules import unsent_modules_variable

        self._check_cancelled()
        check_route(workspace, settings)
        environ = {**unsent_modules_variable(settings), **settings.environ}
        groups = self._worker_groups(settings, workspace)
        run_settings = settings.model_copy(update={"environ": environ, "worker_groups": groups})
        if self._origin != "created":
            deployment._begin_start(run_settings)
            # Before the origin requires a rollback.
            self._check_start(deployment, settings, workspace)
            self._origin = "started"
        with phase(self._progress, "start", deployment.name):
            run = deployment._start_as(
                lambda deployed: run_settings,
                life=self._life(settings, workspace),
                # A deployment by this client has checked them already.
                check_quotas=self._origin != "created",
                warn=self._warn,
            )
        if self._origin == "started" and run.run_id != deployment.started_run_id:
            # Another client was faster: the run is not this client's to stop.
            self._origin = "attached"
        return run

    def _worker_groups(
        self, settings: ClusterSettings, workspace: Workspace
    ) -> dict[str, WorkerGroupSettings]:
        """Return the groups of workers with the requested numbers."""
        requested = workspace.settings.cluster_named(self._request.name).worker_groups
        tables = self._request.given.get("worker_groups", {})
        return {
            name: group.model_copy(update={"n_workers": requested[name].n_workers})
            if "n_workers" in tables.get(name, {})
            else group
            for name, group in settings.worker_groups.items()
        }

    def _life(self, settings: ClusterSettings, workspace: Workspace) -> LifetimePolicy:
        closes = self._request.shutdown_on_close is not False
        declared = self._request.name in workspace.settings.clusters
        return lifetime_policy(
            settings,
            closes_with_client=closes,
            destroyed_after=closes and self._origin == "created" and not declared,
        )

    def _attach_to(
        self,
        found: Snapshot,
        workspace: Workspace,
        deployment: Deployment,
        settings: ClusterSettings,
    ) -> Attachment:
        """Attach to a cluster that runs."""
        request, requested = self._request, workspace.settings.cluster_named(self._request.name)
        if settings.way == "ssm":
            check_route(workspace, settings)
        if found.run is not None:
            warn_of_ignored(request, requested, found.run)
        warn_without_hashes(request.name, found.run, requested)
        with phase(self._progress, "attach", deployment.name):
            attachment = found.attachment or self._attach(deployment, settings, found.run)
        check_versions(deployment.name, attachment)
        return attachment

    def _launch(
        self, workspace: Workspace, deployment: Deployment, settings: ClusterSettings
    ) -> tuple[Deployment, Attachment]:
        """Start the cluster and attach to it; move it to another zone if AWS has no machines."""
        search = ZoneSearch(
            settings.capacity_timeout_seconds, self._zones(workspace, deployment, settings)
        )
        while True:
            run = self._start(deployment, settings, workspace)
            warn_without_hashes(
                self._request.name, run, workspace.settings.cluster_named(self._request.name)
            )
            try:
                with phase(self._progress, "attach", deployment.name):
                    attachment = self._attach(
                        deployment,
                        settings,
                        run,
                        capacity_timeout_seconds=search.patience_seconds(time.monotonic()),
                    )
                check_versions(deployment.name, attachment)
                return deployment, attachment
            except NoCapacity as refusal:
                zone = deployment.descriptor.zone
                if not search.moves_after(refusal, zone, time.monotonic()):
                    if len(search.refused) > 1:
                        refusal.add_note(search.describe())
                    raise
                self._report_refusal(refusal, search.left_seconds(time.monotonic()))
                deployment = self._move(workspace, deployment)
                if deployment.descriptor.zone == zone:
                    search.stays_in(zone)

    def _zones(
        self, workspace: Workspace, deployment: Deployment, settings: ClusterSettings
    ) -> frozenset[str]:
        """Return the zones that the cluster may move to: none, if another plan was reviewed."""
        if self._origin != "created" or not settings.use_best_zone or settings.zone_name:
            return frozenset()
        return frozenset(workspace.baseline().zones)

    def _move(self, workspace: Workspace, deployment: Deployment) -> Deployment:
        """Deploy the stopped cluster in the zone that is best now; return its deployment."""
        self._check_cancelled()
        deployment.stop()
        workspace.apply(workspace.plan_launch(deployment.name, refresh=True))
        self._deployment = workspace.deployment(deployment.name)
        self._check_cancelled()
        return self._deployment

    def _attach(
        self,
        deployment: Deployment,
        settings: ClusterSettings,
        run: Run | None,
        capacity_timeout_seconds: float = 0,
    ) -> Attachment:
        return deployment.attach(
            timeout_seconds=settings.create_timeout_seconds,
            on_wait=partial(self._report_hosts, deployment),
            cancelled=self._cancelled.is_set,
            run=run,
            capacity_timeout_seconds=capacity_timeout_seconds,
            needs_workers=self._origin != "attached" and bool(settings.wait_for_workers),
            on_refusal=self._report_refusal,
        )

    def _report_refusal(self, refusal: NoCapacity, left_seconds: float) -> None:
        self._progress(Message(describe_refusal(refusal, left_seconds), kept=True))

    def _check_cancelled(self) -> None:
        if self._cancelled.is_set():
            raise InterruptedError(f"creation of cluster {self._request.name!r} was cancelled")

    def _report_hosts(self, deployment: Deployment, status: DeploymentStatus) -> None:
        self._on_status(deployment, status)
        for report in status.hosts:
            self._progress(Message(f"scheduler: {report.describe()}"))


# ---- versions that client and cluster must share -------------------------------------------------


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
