"""Progress of making a cluster, as lines for people."""

from __future__ import annotations

import logging

from terradask._common.progress import (
    Message,
    PhaseFinished,
    PhaseStarted,
    Progress,
    ProgressEvent,
    ResourceChanged,
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
    if isinstance(event, PhaseFinished) and event.failed:
        return f"{event.subject}: {event.phase} failed"
    return None


class ClusterProgress:
    """Passes each event to the log, the live view and the caller's function."""

    def __init__(self, function: Progress | None, shown: Progress) -> None:
        self._function = function
        self._shown = shown

    def __call__(self, event: ProgressEvent, /) -> None:
        """Pass on an event."""
        logger.info("%s", event)
        self._shown(event)
        if self._function is not None:
            self._function(event)
