"""Provision a cluster from a request: find or deploy it, start it, and wait for its scheduler.

All calls block: they run in the caller's thread, which receives Ctrl-C, or in a worker thread under
asyncio.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from terradask._aws.credentials import lend
from terradask._clusters.attach import Attachment, Snapshot
from terradask._clusters.deployment import Deployment
from terradask._common.loop_signals import terminated_in_order
from terradask._common.polling import wait_until
from terradask._common.progress import KeptOnce, Message, Progress, phase
from terradask._common.side_by_side import side_by_side
from terradask._dask.connectivity import (
    check_route,
    client_settings,
    needs_own_address,
    with_own_address,
)
from terradask._dask.decision import (
    Decision,
    check_offer,
    check_same_structure,
    closing_error,
    decide,
    structure_given,
)
from terradask._dask.ignored import warn_of_ignored
from terradask._dask.launch import Launch, OnStatus, check_not_cancelled
from terradask._dask.request import Request
from terradask._dask.rollback import Made, Origin, note_not_begun
from terradask._observe.store import STATE_LOCK
from terradask.errors import (
    ClusterStopped,
    FolderBusy,
    PlanChanged,
    StalePlan,
    StateLocked,
)
from terradask_host.rules.autoscaling_groups import Group
from terradask_stacks.errors import SettingsError

if TYPE_CHECKING:
    from terradask._workspace.workspace import Workspace
    from terradask_stacks.settings import ClusterSettings


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


logger = logging.getLogger("terradask")


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


@dataclass(eq=False, repr=False)
class Provisioner:
    """Provision the cluster of a request, or roll back."""

    request: Request
    progress: Progress
    _: KW_ONLY
    #: Called with each status of a starting cluster.
    on_status: OnStatus = lambda deployment, status: None
    #: Called with the deployment, before anything is made.
    on_found: Callable[[Deployment], None] = lambda deployment: None
    #: Between two polls of a cluster that another client deploys.
    poll_seconds: float = POLL_SECONDS
    #: `progress`, for what both the check before a deployment and the start find.
    _kept_once: KeptOnce = field(init=False)
    _cancelled: threading.Event = field(default_factory=threading.Event, init=False)
    _made: Made | None = field(default=None, init=False)
    _cancelled_by: BaseException | None = field(default=None, init=False)
    _stops_terraform: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._kept_once = KeptOnce(self.progress)

    def cancel(self, error: BaseException | None = None) -> None:
        """Make `run`, in another thread, roll back and end soon. Notes of that go to the error of
        the cancelled task, if one is given.
        """
        self._cancelled_by = error
        self._cancelled.set()
        made = self._made
        if made is not None and made.rolled_back is None and not self._stops_terraform:
            # Another request would kill Terraform.
            self._stops_terraform = made.workspace.cancel()

    def run(self) -> Provisioned:
        """Find or create the cluster and wait for its scheduler. Raises `TerradaskError`."""
        from terradask._software.package_sync import locked_once

        with terminated_in_order(), locked_once(), self._rolled_back():
            made, found, requested = self._find()
            workspace = made.workspace
            rounds = 0
            while (decision := self._decision(made.deployment, found)) == "deploy":
                rounds += 1
                # Use another client's deployment; if that client rolls back, try again.
                if self._deploy(
                    made,
                    wait_seconds=requested.create_timeout_seconds,
                    is_last=rounds == _ROUNDS,
                ):
                    break
                found = made.deployment.snapshot(workspace.baseline)
            launch = self._launch_of(made, requested)
            groups = None
            if decision == "attach":
                made.is_others = True
                attachment = self._attach_to(found, launch, requested)
                groups = None if found.attachment is None else found.groups
            else:
                attachment = launch.run()
            if made.origin == "created" and self.request.name in workspace.settings.clusters:
                # A cluster declared in the settings is kept: closing stops it.
                made.origin = "started"
            return Provisioned(
                workspace, made.deployment, attachment, made.origin, launch.settings, groups
            )

    @contextmanager
    def _rolled_back(self) -> Iterator[None]:
        """Roll back after an error, which then names settings as the user typed them."""
        try:
            yield
        except BaseException as error:
            if isinstance(error, SettingsError):
                error.name_as(self.request.typed)
            self.roll_back_after(self._cancelled_by or error)
            raise

    def roll_back_after(self, error: BaseException) -> None:
        """Roll back this request's deployment or start after an error, as `Made.roll_back_after`
        does.
        """
        if self._made is not None:
            self._made.roll_back_after(error, self.progress)
        else:
            note_not_begun(error, self.request.name)

    def cancel_rollback(self) -> None:
        """Make a rollback in another thread end soon: after a second Ctrl-C."""
        if self._made is not None:
            self._made.workspace.cancel()

    def note_unfinished(self, error: BaseException) -> None:
        """Add notes to a Ctrl-C that waits neither for `run` nor for a rollback."""
        if self._made is not None:
            self._made.note_unfinished(error)
        else:
            note_not_begun(error, self.request.name)

    def _find(self) -> tuple[Made, Snapshot, ClusterSettings]:
        """Load the settings, and read the cluster; finish an interrupted destruction of it. Return
        what this client has made, what there is, and the requested settings.
        """
        from terradask._workspace.workspace import Workspace

        if needs_own_address(self.request.given):
            request = self.request
            loaded = Workspace.load(request.path, workspace=dict(request.workspace)).settings
            given = with_own_address(
                request.given,
                loaded.workspace.own_address_url,
                loaded.cluster_named(request.name),
            )
            self.request = replace(request, given=given)
        request = self.request
        workspace = Workspace.load(request.path, progress=self.progress, **self._overrides())
        # Before any call to AWS.
        requested = workspace.settings.cluster_named(request.name)
        # The bucket's name needs the account: clients are created during that call.
        begun: list[Callable[[], Any]] = [lambda: _deployment(workspace, request.name)]
        begun += (partial(workspace.aws.client, name) for name in _CLIENTS)
        deployment: Deployment = side_by_side(begun, 2)[0]
        made = self._made = Made(workspace, deployment)
        self.on_found(deployment)
        if request.credentials == "local":
            # Without credentials to lend, fail before resources are created.
            lend(workspace.aws, request.credentials_duration_seconds)
        found = deployment.snapshot(workspace.baseline)
        # By now AWS has named the credentials' account; the data must belong to it.
        workspace.aws.confirm_account()
        if found.closing:
            if request.attach or request.create is False:
                raise closing_error(request.name)
            with phase(self.progress, "destroy", request.name):
                workspace.destroy_cluster(request.name)
            deployment = made.deployment = workspace.deployment(request.name)
            found = deployment.snapshot(workspace.baseline)
        return made, found, requested

    def _launch_of(self, made: Made, requested: ClusterSettings) -> Launch:
        """Return the launch of a deployed cluster with its own settings, and those of this run."""
        request = self.request
        deployed = made.deployment.descriptor.cluster_settings
        if made.origin != "created":
            structure = request.structure
            check_same_structure(
                request.name,
                *(structure_given(each, structure) for each in (requested, deployed)),
            )
        own = {name: getattr(requested, name) for name in client_settings(request.given, requested)}
        settings = deployed.model_copy(update=own)
        check_offer(made.workspace.settings, settings, own)
        return Launch(
            request,
            settings,
            made,
            self._kept_once,
            on_status=self.on_status,
            cancelled=self._cancelled,
        )

    def _overrides(self) -> dict[str, Any]:
        request = self.request
        sections = {"workspace": dict(request.workspace), "cluster": dict(request.given)}
        return {name: given for name, given in sections.items() if given}

    def _decision(self, deployment: Deployment, snapshot: Snapshot) -> Decision:
        create, attach = self.request.create, self.request.attach
        try:
            return decide(deployment.name, snapshot.found, create=create, attach=attach)
        except ClusterStopped as stopped:
            # The cluster may have ended by itself, with a reason.
            raise deployment.why_stopped() from stopped

    def _deploy(self, made: Made, *, wait_seconds: float, is_last: bool = True) -> bool:
        """Deploy the cluster, or wait for another client's deployment; return whether this client
        deployed it.
        """
        from terradask._dask.package_check import check_packages

        workspace, deployment = made.workspace, made.deployment
        # Fail before resources are created, not at the start.
        cluster = workspace.settings.cluster_named(self.request.name)
        if cluster.container is None:
            check_packages(
                deployment,
                cluster,
                workspace.root,
                architecture="arm64" if cluster.expects_arm else "x86_64",
                progress=self._kept_once,
            )
        check_route(workspace, cluster)
        try:
            plan = workspace.plan_launch(self.request.name)
            self._check_cancelled()
            if not deployment.exists:
                # From here on resources may exist, even if Terraform fails.
                made.origin = "created"
                workspace.apply(plan)
                return True
        except (FolderBusy, PlanChanged, StalePlan, StateLocked):
            # The cluster belongs to another client: this one must not destroy it.
            made.origin, made.is_others = "attached", True
            self.progress(Message(f"{deployment.name}: another client is deploying it; waiting"))
            if not wait_for_deployment(
                deployment,
                seconds=wait_seconds,
                poll_seconds=self.poll_seconds,
                check_cancelled=self._check_cancelled,
            ):
                if is_last:
                    raise
                return False
        # Started by the client that deployed it, the cluster ends with that client.
        wait_until(
            lambda: deployment.current_run() is not None,
            limit_seconds=_START_SECONDS,
            pause_seconds=self.poll_seconds,
            on_wait=self._check_cancelled,
        )
        return False

    def _attach_to(self, found: Snapshot, launch: Launch, requested: ClusterSettings) -> Attachment:
        """Attach to a cluster that runs."""
        if launch.settings.way == "ssm":
            check_route(launch.made.workspace, launch.settings)
        if found.run is not None:
            warn_of_ignored(self.request, requested, found.run)
        launch.warn_without_hashes(found.run)
        return launch.attach(found.run, found=found.attachment)

    def _check_cancelled(self) -> None:
        check_not_cancelled(self.request.name, self._cancelled)
