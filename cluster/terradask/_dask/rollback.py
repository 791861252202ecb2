"""Roll back a deployment or a start after a failure, so that no cost remains."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from terradask._clusters.deployment import Deployment
from terradask._common.progress import Message, Progress, ProgressEvent
from terradask.errors import ClusterNotFound

if TYPE_CHECKING:
    from terradask._workspace.workspace import Workspace

logger = logging.getLogger("terradask")

#: ``created``: deployed and started by this client; ``started``: only started; ``attached``:
#: neither.
Origin = Literal["created", "started", "attached"]


@dataclass(eq=False, repr=False)
class Made:
    """A cluster that a client provisions: its deployment now, and the work to roll back."""

    workspace: Workspace
    deployment: Deployment
    origin: Origin = "attached"
    rolling_back: bool = False

    def roll_back_after(self, error: BaseException, progress: Progress) -> None:
        """Roll back after an error, and add a note to the error; later calls do nothing. The caller
        raises that error, unless the rollback is interrupted.

        Raises `KeyboardInterrupt`, `SystemExit`.
        """
        origin, name = self.origin, self.deployment.name
        self.origin = "attached"
        if origin == "attached":
            return
        self.rolling_back = True
        try:
            roll_back(self.workspace, self.deployment, origin, progress)
        except BaseException as second:
            note_left_behind(error, name, origin, second)
            if isinstance(error, Exception) and not isinstance(second, Exception):
                raise second from error
        else:
            note_rolled_back(error, name, origin)


def roll_back(
    workspace: Workspace, deployment: Deployment, origin: Origin, progress: Progress
) -> None:
    """Destroy a cluster that this client deployed, or stop one that it started.

    After a failure or an interruption, the groups are at zero and a deployed cluster is marked as
    closing: the next use of its name completes the rollback.
    """
    # A callback that fails must not prevent the rollback.
    safely = _unfailing(progress)
    try:
        safely(Message(f"rolling back cluster {deployment.name!r}"))
        if origin == "created":
            workspace.with_progress(safely).destroy_cluster(deployment.name)
        else:
            deployment.stop()
    except ClusterNotFound:
        logger.debug("cluster %s: nothing had been made", deployment.name)
    except BaseException:
        _stop_quickly(deployment, origin)
        raise


def note_rolled_back(error: BaseException, name: str, origin: Origin) -> None:
    """Add a note to an error: its resources were rolled back."""
    error.add_note(
        f"The {'deployment' if origin == 'created' else 'start'} of cluster {name!r} was "
        "rolled back."
    )


def note_left_behind(error: BaseException, name: str, origin: Origin, why: BaseException) -> None:
    """Add a note to an error: the failed rollback, and the command that completes it."""
    verb = "destroy" if origin == "created" else "stop"
    reason = "interrupted" if isinstance(why, KeyboardInterrupt | SystemExit) else str(why)
    error.add_note(
        f"Cluster {name!r} could not be rolled back ({reason}). To remove what is left: terradask "
        f"{verb} {name}"
    )


def _stop_quickly(deployment: Deployment, origin: Origin) -> None:
    """Set the groups to zero in the last seconds of an interrupted process."""
    try:
        if origin == "created":
            deployment.mark_closing()
        else:
            deployment.groups.zero()
    except Exception:
        # A deployment without a descriptor has no instances.
        logger.debug("cluster %s: can't bring its groups to zero", deployment.name, exc_info=True)


def _unfailing(progress: Progress) -> Progress:
    def report(event: ProgressEvent, /) -> None:
        with contextlib.suppress(Exception):
            progress(event)

    return report
