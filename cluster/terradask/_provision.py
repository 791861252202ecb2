"""From a request to a cluster that a client can talk to: find or make the deployment, start it, wait for its scheduler.

Everything here blocks; it runs in the caller's thread, where Ctrl-C arrives, or in a worker thread under asyncio.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal

from terradask._deployment import Attachment, Deployment
from terradask._documents import HostReport
from terradask._options import check_same_structure
from terradask._progress import Message, Progress, ProgressEvent, phase
from terradask._software import lock_software, python_version
from terradask.errors import ClusterNotFound, ClusterStopped, InvalidInput, NoIngress, VersionMismatch

if TYPE_CHECKING:
    from terradask._workspace import Workspace

logger = logging.getLogger("terradask")

#: ``created``: deployed and started here; ``started``: deployed before, started here; ``attached``: was running.
Origin = Literal["created", "started", "attached"]

#: What client and cluster must share: functions and results travel pickled, and Dask's protocol has no versions of its own.
SAME_VERSION = ("dask", "distributed")


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
        """Take back what this request made: destroy what it deployed, stop what it started.

        Should that fail, or be interrupted, the groups are at zero, and what was deployed is marked: whoever uses its name next finishes.
        """
        workspace, deployment, origin = self._workspace, self._deployment, self._origin
        self._origin = "attached"
        if workspace is None or deployment is None or origin == "attached":
            return
        self._undoing = True
        # A callback that fails must not keep anything from being taken back.
        tell = _unfailing(self._progress)
        try:
            tell(Message(f"taking back cluster {deployment.name!r}"))
            end_cluster(workspace.with_progress(tell), deployment, origin)
        except ClusterNotFound:
            logger.debug("cluster %s: nothing had been made", deployment.name)
        except BaseException:
            _let_go(deployment, origin)
            raise

    def undo_after(self, error: BaseException) -> None:
        """Undo because of an error, which gets a note about it and stays the one to raise, unless this is interrupted.

        Raises
        ------
        KeyboardInterrupt, SystemExit
            If this is interrupted, and `error` isn't an interruption itself.
        """
        name, made = self._request.name, self._origin
        if made == "attached":
            return
        verb = "destroy" if made == "created" else "stop"
        try:
            self.undo()
        except BaseException as second:
            error.add_note(f"Cluster {name!r} could not be taken back ({_told(second)}). What is left goes with: terradask {verb} {name}")
            if isinstance(error, Exception) and not isinstance(second, Exception):
                raise second from error
        else:
            error.add_note(f"What had been {'made' if made == 'created' else 'started'} of cluster {name!r} was taken back.")

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
        asked = workspace.settings.cluster.model_dump(mode="json")
        if deployment.exists:
            wanted = {name: asked[name] for name in request.structure}
            check_same_structure(request.name, wanted, deployment.descriptor.settings)
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
        lock_software(workspace.settings.cluster.software)
        self._check_ingress(workspace)
        plan = workspace.plan_cluster(self._request.name)
        self._check_cancelled()
        # From here on something may exist, however far Terraform comes.
        self._origin = "created"
        workspace.apply(plan)

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
            deployment.start(
                n_workers=settings.get("n_workers"),
                environ=settings["environ"],
                software=settings["software"],
                send_dask_config=settings["send_dask_config"],
            )

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
        cluster = workspace.settings.cluster
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


@contextlib.contextmanager
def terminated_in_order() -> Iterator[None]:
    """Let SIGTERM, where nobody handles it, unwind the main thread and end the process with its exit code, 143."""

    def terminate(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _let_go(deployment: Deployment, origin: Origin) -> None:
    """Do what fits into the last seconds of an interrupted process."""
    try:
        if origin == "created":
            deployment.mark_closing()
        else:
            deployment.groups.zero()
    except Exception:
        # A deployment without a descriptor has no instances.
        logger.debug("cluster %s: can't be let go", deployment.name, exc_info=True)


def _unfailing(progress: Progress) -> Progress:
    def tell(event: ProgressEvent, /) -> None:
        with contextlib.suppress(Exception):
            progress(event)

    return tell


def _told(error: BaseException) -> str:
    return "interrupted" if isinstance(error, KeyboardInterrupt | SystemExit) else str(error)


def end_cluster(workspace: Workspace, deployment: Deployment, origin: Origin) -> None:
    """End a cluster as it began: destroy it if it was made here, stop it if it was deployed before."""
    if origin == "created":
        workspace.destroy_cluster(deployment.name)
    else:
        deployment.stop()


def check_versions(cluster: str, attachment: Attachment) -> None:
    """Refuse to talk to a cluster of other versions.

    Raises
    ------
    VersionMismatch
        With both lists.
    """
    import importlib.metadata

    here = {"python": python_version(), **{p: importlib.metadata.version(p) for p in SAME_VERSION}}
    there = {"python": attachment.scheduler.python, **attachment.scheduler.packages}
    there = {name: ".".join(v.split(".")[:2]) if name == "python" else v for name, v in there.items()}
    if any(there.get(name) != version for name, version in here.items()):
        raise VersionMismatch(
            f"Client and cluster {cluster!r} run different versions.",
            cluster=cluster,
            client=here,
            hosts={name: there.get(name, "none") for name in here},
            advice=f"use the cluster's versions here, or stop and start it from here: terradask stop {cluster}",
        )


def parse_name(name: str | None) -> str:
    """Return the cluster's name, made up where none is given.

    Raises
    ------
    InvalidInput
        When AWS would refuse what is named after it.
    """
    import secrets

    from terradask_stacks.settings import validate_cluster_name

    if name is None:
        return f"dask-{secrets.token_hex(4)}"
    if not isinstance(name, str):
        raise InvalidInput("A cluster's name is text.", given=name, allowed="such as 'etl'", advice="pass a string")
    return validate_cluster_name(name)
