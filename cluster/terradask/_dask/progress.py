"""Progress of making a cluster, as lines for people."""

from __future__ import annotations

import logging
from collections.abc import Callable

from terradask._common.progress import (
    Message,
    PhaseFinished,
    PhaseStarted,
    Progress,
    ProgressEvent,
    ResourceChanged,
    Warned,
)

logger = logging.getLogger("terradask")

_WORDS = {
    "resolve": "finding zones, images and instance types",
    "synthesise": "writing the Terraform configuration",
    "init": "initialising Terraform",
    "plan": "planning",
    "show": "reading the plan",
    "apply": "applying the plan",
    "destroy": "destroying",
    "start": "starting the instances",
    "attach": "waiting for the scheduler",
}


def describe(event: ProgressEvent) -> str | None:
    """Return a progress event as a short line, or None if it adds nothing for a user."""
    if isinstance(event, PhaseStarted):
        return f"{event.subject}: {_WORDS.get(event.phase, event.phase)}"
    if isinstance(event, ResourceChanged):
        return f"{event.subject}: {event.done}/{event.total} {event.address}"
    if isinstance(event, Message):
        return event.text
    if isinstance(event, Warned):
        return f"warning: {event.text}"
    if isinstance(event, PhaseFinished) and event.failed:
        return f"{event.subject}: {event.phase} failed"
    return None


def log_line(event: ProgressEvent) -> str:
    """Return a progress event as a log has it: also ends, with how long they took."""
    if isinstance(event, PhaseFinished) and not event.failed:
        did = _WORDS.get(event.phase, event.phase)
        return f"{event.subject}: {did} took {event.seconds:.1f} s"
    if isinstance(event, ResourceChanged):
        done = f"{event.done} of {event.total} done"
        return f"{event.subject}: {event.action} of {event.address} {event.state}, {done}"
    if isinstance(event, Warned):
        return event.text
    return str(describe(event))


class ClusterProgress:
    """Passes each event to the log, the live view and the caller's function.

    Parameters
    ----------
    is_drawn
        Whether the live view is on a screen.
    """

    def __init__(
        self, function: Progress | None, shown: Progress, is_drawn: Callable[[], bool]
    ) -> None:
        self._function = function
        self._shown = shown
        self._is_drawn = is_drawn

    def __call__(self, event: ProgressEvent, /) -> None:
        """Pass on an event."""
        logger.log(self._level(event), "%s", log_line(event))
        self._shown(event)
        if self._function is not None:
            self._function(event)

    def _level(self, event: ProgressEvent) -> int:
        """Return a warning's level for a warning that is seen nowhere else: where logging isn't
        configured, Python shows those on standard error.
        """
        if not isinstance(event, Warned):
            return logging.INFO
        is_seen = self._function is not None or self._is_drawn()
        return logging.INFO if is_seen and not logger.hasHandlers() else logging.WARNING
