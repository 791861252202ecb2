"""Format and distribute progress events of a cluster object, and set up its logging."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from terradask._common.clock import age_text
from terradask._common.naming import counted
from terradask._common.progress import (
    LaunchPlanned,
    Message,
    PhaseFinished,
    PhaseStarted,
    Progress,
    ProgressEvent,
    ResourceChanged,
    Warned,
)
from terradask.errors import InvalidInput

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
        ended = "interrupted" if event.interrupted else "failed"
        return f"{event.subject}: {event.phase} {ended}"
    return None


def log_line(event: ProgressEvent) -> str:
    """Return a progress event as a log line, including ends of phases with their duration."""
    if isinstance(event, PhaseFinished) and not event.failed:
        did = _WORDS.get(event.phase, event.phase)
        return f"{event.subject}: {did} took {age_text(event.seconds, tenths=True)}"
    if isinstance(event, ResourceChanged):
        done = f"{event.done} of {event.total} done"
        return f"{event.subject}: {event.action} of {event.address} {event.state}, {done}"
    if isinstance(event, Warned):
        return event.text
    if isinstance(event, LaunchPlanned):
        hosts = (
            f"{counted(each.number, 'host')} of {each.group} ({each.instance_types[0]})"
            for each in event.hosts
            if each.number
        )
        return f"{event.subject}: a start launches {', '.join(hosts)}"
    return str(describe(event))


@dataclass(frozen=True)
class ClusterProgress:
    """Passes each event to the log, the live view and the caller's function."""

    function: Progress | None
    shown: Progress
    #: Whether the live view is on a screen.
    is_drawn: Callable[[], bool]

    def __call__(self, event: ProgressEvent, /) -> None:
        """Pass on an event."""
        logger.log(self._level(event), "%s", log_line(event))
        self.shown(event)
        if self.function is not None:
            self.function(event)

    def _level(self, event: ProgressEvent) -> int:
        """Return the log level of an event. Warnings that are shown nowhere else get WARNING:
        Python writes those to standard error even without configured logging.
        """
        if not isinstance(event, Warned):
            return logging.INFO
        is_seen = self.function is not None or self.is_drawn()
        return logging.INFO if is_seen and not logger.hasHandlers() else logging.WARNING


# ---- logging of this process ---------------------------------------------------------------------


#: Dask's own.
_FORMAT = "%(asctime)s - %(name)s - %(levelname)s - %(message)s"


class OwnLogging:
    """Set up this process's logging for a ``Cluster``; changes to Dask's loggers end with `close`.

    Raises `InvalidInput` for an unknown level `silence`.
    """

    def __init__(self, silence: bool | int | str) -> None:
        self._level = _level(silence)
        self._silenced = contextlib.ExitStack()

    def begin(self, *, configure: bool | None) -> None:
        """Silence Dask's loggers, and show terradask's messages on request."""
        from distributed.utils import silence_logging_cmgr

        if self._level:
            for root in ("distributed", "bokeh"):
                self._silenced.enter_context(silence_logging_cmgr(self._level, root))
        if configure:
            _show_own()

    def close(self) -> None:
        """Restore Dask's loggers."""
        self._silenced.close()


def _level(given: Any) -> int:
    """Return the lowest level that Dask's loggers still log; 0 for no change."""
    if isinstance(given, bool):
        return logging.ERROR if given else 0
    level = logging.getLevelNamesMapping().get(given.upper()) if isinstance(given, str) else given
    if isinstance(level, int) and level >= 0:
        return level
    raise InvalidInput(
        "silence_logs is not a logging level.",
        given=given,
        allowed="True, False, or a level of Python's logging, such as 'ERROR'",
    )


def _show_own() -> None:
    """Log terradask's messages from INFO on to standard error, unless a handler exists."""
    logger = logging.getLogger("terradask")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter(_FORMAT))
        logger.addHandler(handler)
        # The root's handlers would log it again.
        logger.propagate = False
    logger.setLevel(logging.INFO)
