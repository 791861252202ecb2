"""What the library reports about a long operation: events to a callback. It never prints."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

logger = logging.getLogger("terradask")


@dataclass(frozen=True)
class PhaseStarted:
    """A phase begins."""

    #: ``resolve``, ``synthesise``, ``init``, ``plan``, ``apply``, ``start``, ``attach``, ….
    phase: str
    #: What it works on: ``network``, or a cluster's name.
    subject: str


@dataclass(frozen=True)
class PhaseFinished:
    """A phase has ended."""

    #: `phase`, `subject`: as in `PhaseStarted`.
    phase: str
    subject: str
    #: How long it took.
    seconds: float
    #: Whether it ended with an error or an interruption.
    failed: bool = False


@dataclass(frozen=True)
class ResourceChanged:
    """Terraform has begun or ended work on one resource."""

    #: The stack.
    subject: str
    #: The resource.
    address: str
    #: ``create``, ``update``, ``delete``, ….
    action: str
    #: ``started``, ``finished`` or ``failed``.
    state: str
    #: `done`, `total`: how many resources are through, of how many.
    done: int
    total: int
    #: How long this one took.
    seconds: float | None = None


@dataclass(frozen=True)
class Message:
    """Something that a person who waits wants to know."""

    text: str
    #: Whether it is to stay in sight, also when it's over.
    kept: bool = False


@dataclass(frozen=True)
class Warned:
    """Something that goes on, but may not be what the user wants: it is to be seen, and to stay in
    sight.
    """

    text: str


ProgressEvent = PhaseStarted | PhaseFinished | ResourceChanged | Message | Warned


#: Whatever takes progress events, in the thread that does the work. An error that it raises ends
#: the operation in order.
Progress = Callable[[ProgressEvent], None]


def silent(event: ProgressEvent, /) -> None:
    """Drop an event."""


def warnings_logged(event: ProgressEvent, /) -> None:
    """Log warnings, for callers that take no events; Python shows them on standard error, unless
    logging is configured.
    """
    if isinstance(event, Warned):
        logger.warning("%s", event.text)


@contextmanager
def phase(progress: Progress, name: str, subject: str) -> Iterator[None]:
    """Report the start and the end of a phase."""
    started = time.monotonic()
    progress(PhaseStarted(name, subject))
    failed = True
    try:
        yield
        failed = False
    finally:
        progress(PhaseFinished(name, subject, time.monotonic() - started, failed))
