"""From a request to a cluster that a client can talk to: find or make the deployment, start it, wait for its scheduler.

Everything here blocks; it runs in the caller's thread, where Ctrl-C arrives, or in a worker thread under asyncio.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from terradask._progress import Message, Progress, phase
from terradask._runtime.attachment import Attachment
from terradask._runtime.deployment import Deployment
from terradask._runtime.documents import Descriptor, HostReport
from terradask._runtime.options import check_same_structure, structure_given
from terradask._runtime.sigterm import terminated_in_order
from terradask._runtime.software import lock_software
from terradask._runtime.undo import Origin, note_left_behind, note_taken_back, take_back
from terradask._runtime.versions import check_versions
from terradask.errors import ClusterNotFound, ClusterStopped, FolderBusy, NoIngress, PlanChanged, StalePlan, StateLocked

if TYPE_CHECKING:
    from terradask._workspace import Workspace


@dataclass(frozen=True)
class Request:
    """What a caller of ``Cluster`` wants."""

    name: str
    structure: Mapping[str, Any] = field(default_factory=dict)
    run: Mapping[str, Any] = field(default_factory=dict)
    workspace: Mapping[str, Any] = field(default_factory=dict)
    path: Path | None = None
    attach_only: bool = False


@dataclass(frozen=True)
class Provisioned:
    """A running cluster, how it came to run, and the settings in force."""

    workspace: Workspace
    deployment: Deployment
    attachment: Attachment
    origin: Origin
    settings: Mapping[str, Any]


def deployed_settings(descriptor: Descriptor) -> dict[str, Any]:
    """Return a deployed cluster's settings, complete, to compare with what is asked for."""
    from terradask_stacks.settings import ClusterSettings

    # A descriptor of another version may lack settings: then they had their defaults.
    settings = {**ClusterSettings().model_dump(mode="json"), **descriptor.settings}
    if settings["arm"] is None:
        # Said by the types' names, or by nobody.
        settings["arm"] = descriptor.architecture == "arm64"
    return settings


class Provisioner:
    """Make a request come true, or leave things as they were.

    Parameters
    ----------
    request
        What is wanted.
    progress
        Gets every event.
    """

    def __init__(self, request: Request, progress: Progress) -> None:
        self._request = request
        self._progress = progress
        self._cancelled = threading.Event()
        self._workspace: Workspace | None = None
        self._deployment: Deployment | None = None
        self._origin: Origin = "attached"
        self._undoing = False

    def cancel(self) -> None:
        """Make `run`, in another thread, end soon, with what it had made undone."""
        self._cancelled.set()
        if self._workspace is not None and not self._undoing:
            self._workspace.cancel()

    def run(self) -> Provisioned:
        """Find or make the cluster and wait for its scheduler.

        Raises
        ------
        TerradaskError
            Whatever went wrong; what was made here is then gone again, or a note on the error says what removes it.
        """
        with terminated_in_order():
            try:
                return self._run()
            except BaseException as error:
                self.undo_after(error)
                raise

    def undo(self) -> None:
        """Take back what this request made: destroy what it deployed, stop what it started. A second call does nothing."""
        workspace, deployment, origin = self._workspace, self._deployment, self._origin
        self._origin = "attached"
        if workspace is None or deployment is None or origin == "attached":
            return
        self._undoing = True
        take_back(workspace, deployment, origin, self._progress)

    def undo_after(self, error: BaseException) -> None:
        """Undo because of an error, which gets a note about it and stays the one to raise, unless this is interrupted.

        Raises
        ------
        KeyboardInterrupt, SystemExit
            If this is interrupted, and `error` isn't an interruption itself.
        """
        name, origin = self._request.name, self._origin
        if origin == "attached":
            return
        try:
            self.undo()
        except BaseException as second:
            note_left_behind(error, name, origin, second)
            if isinstance(error, Exception) and not isinstance(second, Exception):
                raise second from error
        else:
            note_taken_back(error, name, origin)

    def _run(self) -> Provisioned:
        from terradask._workspace import Workspace

        request = self._request
        workspace = Workspace.load(request.path, progress=self._progress, **self._overrides())
        deployment = Deployment(workspace.aws, workspace.bucket, request.name)
        self._workspace, self._deployment = workspace, deployment
        if deployment.marked_closing:
            with phase(self._progress, "destroy", request.name):
                workspace.destroy_cluster(request.name)
            deployment = self._deployment = Deployment(workspace.aws, workspace.bucket, request.name)
        asked = workspace.settings.cluster_named(request.name).model_dump(mode="json")
        if deployment.exists:
            deployed = deployed_settings(deployment.descriptor)
            check_same_structure(request.name, *(structure_given(each, request.structure) for each in (asked, deployed)))
        elif request.attach_only:
            raise ClusterNotFound(
                f"There is no cluster {request.name!r} in workspace {workspace.settings.workspace.name!r}.",
                cluster=request.name,
                advice="terradask list shows those there are",
            )
        else:
            self._deploy(workspace)
        settings = {**deployment.descriptor.settings, **{name: asked[name] for name in request.run}}
        self._start(deployment, settings, workspace)
        attachment = self._attach(deployment, settings)
        if self._origin == "created" and request.name in workspace.settings.clusters:
            # Whoever declares a cluster keeps it: closing stops it.
            self._origin = "started"
        return Provisioned(workspace, deployment, attachment, self._origin, settings)

    def _overrides(self) -> dict[str, Any]:
        overrides: dict[str, Any] = {}
        if self._request.workspace:
            overrides["workspace"] = dict(self._request.workspace)
        cluster = {**self._request.structure, **self._request.run}
        if cluster:
            overrides["cluster"] = cluster
        return overrides

    def _deploy(self, workspace: Workspace) -> None:
        # What start would refuse is refused before anything is made.
        cluster = workspace.settings.cluster_named(self._request.name)
        lock_software(cluster.software, architecture="arm64" if cluster.expects_arm else "x86_64")
        self._check_ingress(workspace)
        plan = workspace.plan_cluster(self._request.name)
        self._check_cancelled()
        # From here on something may exist, however far Terraform comes.
        self._origin = "created"
        try:
            workspace.apply(plan)
        except (FolderBusy, PlanChanged, StalePlan, StateLocked):
            # Refused before Terraform made anything: a cluster of this name is somebody else's, and not ours to destroy.
            self._origin = "attached"
            raise

    def _start(self, deployment: Deployment, settings: Mapping[str, Any], workspace: Workspace) -> None:
        self._check_cancelled()
        if self._origin != "created" and deployment.current_run() is not None:
            return
        if self._request.attach_only:
            raise ClusterStopped(
                f"Cluster {deployment.name!r} is stopped.",
                cluster=deployment.name,
                advice=f"terradask start {deployment.name}, or Cluster(name={deployment.name!r})",
            )
        self._check_ingress(workspace)
        if self._origin != "created":
            self._origin = "started"
        with phase(self._progress, "start", deployment.name):
            run = deployment.start(
                n_workers=settings.get("n_workers"),
                environ=settings["environ"],
                software=settings["software"],
                send_dask_config=settings["send_dask_config"],
                group_workers={
                    name: group["n_workers"]
                    for name, group in self._request.structure.get("worker_groups", {}).items()
                    if "n_workers" in group
                },
            )
        if self._origin == "started" and run.run_id != deployment.started_run_id:
            # Somebody else was faster: the run is theirs, and not ours to stop.
            self._origin = "attached"

    def _attach(self, deployment: Deployment, settings: Mapping[str, Any]) -> Attachment:
        with phase(self._progress, "attach", deployment.name):
            attachment = deployment.attach(
                timeout_seconds=settings["create_timeout_seconds"],
                on_wait=self._tell_hosts,
                cancelled=self._cancelled.is_set,
            )
        check_versions(deployment.name, attachment)
        return attachment

    def _check_ingress(self, workspace: Workspace) -> None:
        cluster = workspace.settings.cluster_named(self._request.name)
        if cluster.use_scheduler_public_ip and not workspace.baseline().ingress:
            raise NoIngress(
                "Nobody could reach the cluster's scheduler: the network lets no address in.",
                given="network.ingress = []",
                allowed="rules of ports and CIDR blocks, such as your own address",
                advice='add [[network.ingress]] with cidr = "YOUR.ADDRESS/32" to terradask.toml and run: terradask apply network; '
                "or, inside the VPC, set use_scheduler_public_ip = false",
            )

    def _check_cancelled(self) -> None:
        if self._cancelled.is_set():
            raise InterruptedError(f"making cluster {self._request.name!r} was cancelled")

    def _tell_hosts(self, reports: list[HostReport]) -> None:
        for report in reports:
            if report.role == "scheduler":
                self._progress(Message(f"scheduler: {report.describe()}"))
