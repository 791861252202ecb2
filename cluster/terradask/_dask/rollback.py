"""Roll back a deployment or a start after a failure, so that no cost remains."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from terradask._common.progress import Message, Progress, ProgressEvent, is_interruption
from terradask.errors import ClusterNotFound
from terradask_modules.short_errors import explain_interrupt
from terradask_modules.tracebacks import plain

if TYPE_CHECKING:
    from terradask._clusters.deployment import Deployment
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
    #: The origin while it is rolled back, and after.
    rolled_back: Origin | None = None
    #: Whether another client has made or started it.
    is_others: bool = False
    #: Whether a second Ctrl-C, which didn't wait, shows what is left.
    is_shown: bool = False

    def roll_back_after(self, error: BaseException, progress: Progress) -> None:
        """Roll back after an error, and add notes to the error; later calls do nothing. The caller
        raises that error, unless the rollback is interrupted.

        Raises `KeyboardInterrupt`, `SystemExit`.
        """
        origin, name = self.origin, self.deployment.name
        self.origin = "attached"
        if origin == "attached":
            (note_untouched if self.is_others else note_not_begun)(error, name)
            return
        self.rolled_back = origin
        # A callback that fails must not prevent the rollback.
        safely = _unfailing(progress)
        self.workspace = self.workspace.with_progress(safely)
        try:
            roll_back(self.workspace, self.deployment, origin, safely)
        except BaseException as second:
            note_left_behind(error, name, origin, second)
            if not (self.is_shown or isinstance(error, Exception | KeyboardInterrupt)):
                # Python shows no SystemExit, and asyncio may drop a task's cancellation.
                _warn(error)
            if isinstance(error, Exception) and not isinstance(second, Exception):
                note_left_behind(second, name, origin, second)
                raise second from error
        else:
            note_rolled_back(error, name, origin)
            if isinstance(error, SystemExit):
                _warn(error)

    def note_unfinished(self, error: BaseException) -> None:
        """Add notes to a second Ctrl-C, which doesn't wait for the end of the rollback."""
        self.is_shown = self.is_shown or isinstance(error, KeyboardInterrupt)
        origin, name = self.rolled_back or self.origin, self.deployment.name
        if origin == "attached":
            (note_untouched if self.is_others else note_not_begun)(error, name)
        else:
            note_left_behind(error, name, origin, error)


def roll_back(
    workspace: Workspace, deployment: Deployment, origin: Origin, progress: Progress
) -> None:
    """Destroy a cluster that this client deployed, or stop one that it started.

    After a failure or an interruption, the groups are at zero and a deployed cluster is marked as
    closing: the next use of its name completes the rollback.
    """
    try:
        progress(Message(f"rolling back cluster {deployment.name!r}"))
        if origin == "created":
            workspace.destroy_cluster(deployment.name)
        else:
            deployment.stop()
    except ClusterNotFound:
        logger.debug("cluster %s: nothing had been made", deployment.name)
    except BaseException:
        _stop_quickly(deployment, origin)
        raise


def _warn(error: BaseException) -> None:
    """Log an error's notes."""
    logger.warning("%s", "; ".join(getattr(error, "__notes__", ())))


def note_rolled_back(error: BaseException, name: str, origin: Origin) -> None:
    """Add notes to an error: its resources were rolled back."""
    what = "deployment" if origin == "created" else "start"
    if not isinstance(error, Exception | SystemExit):
        stopped = f"its deployment, stopped. To start it: terradask start {name}"
        left = "nothing of it" if origin == "created" else stopped
        explain_interrupt(error, f"the {what} of cluster {name!r} was rolled back", left)
    else:
        error.add_note(f"The {what} of cluster {name!r} was rolled back.")


def note_left_behind(error: BaseException, name: str, origin: Origin, why: BaseException) -> None:
    """Add notes to an error: the failed rollback, and the command that completes it."""
    verb = "destroy" if origin == "created" else "stop"
    reason = "interrupted" if is_interruption(why) else plain(str(why))
    if not isinstance(error, Exception | SystemExit):
        explain_interrupt(
            error,
            f"cluster {name!r} is rolled back only in part ({reason})",
            f"the rest of it. To remove it: terradask {verb} {name}",
        )
    else:
        error.add_note(
            f"Cluster {name!r} could not be rolled back ({reason}). To remove what is left: "
            f"terradask {verb} {name}"
        )


def note_untouched(error: BaseException, name: str) -> None:
    """Add notes to a Ctrl-C: the cluster is another client's."""
    left = f"cluster {name!r}, which runs on. To end it: terradask stop {name}"
    explain_interrupt(error, "nothing was changed", left)


def note_not_begun(error: BaseException, name: str) -> None:
    """Add notes to a Ctrl-C: there was nothing to roll back."""
    explain_interrupt(
        error, f"nothing of cluster {name!r} had been made or started", "what there was before"
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
