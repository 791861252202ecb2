"""What the library tells about a long operation: events to a callback. It never prints."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class PhaseStarted:
    """A phase begins.

    Parameters
    ----------
    phase
        ``resolve``, ``synthesise``, ``init``, ``plan``, ``show``, ``apply``, ``destroy``, ``start``, ``attach``, ….
    subject
        What it works on: ``network``, or a cluster's name.
    """

    phase: str
    subject: str


@dataclass(frozen=True)
class PhaseFinished:
    """A phase has ended.

    Parameters
    ----------
    phase, subject
        As in `PhaseStarted`.
    seconds
        How long it took.
    failed
        Whether it ended with an error or an interruption.
    """

    phase: str
    subject: str
    seconds: float
    failed: bool = False


@dataclass(frozen=True)
class ResourceChanged:
    """Terraform has begun or ended work on one resource.

    Parameters
    ----------
    subject
        The stack.
    address
        The resource.
    action
        ``create``, ``update``, ``delete``, ….
    state
        ``started``, ``finished`` or ``failed``.
    done, total
        How many resources are through, of how many.
    seconds
        How long this one took.
    """

    subject: str
    address: str
    action: str
    state: str
    done: int
    total: int
    seconds: float | None = None


@dataclass(frozen=True)
class Message:
    """Something that a person who waits wants to know."""

    text: str


ProgressEvent = PhaseStarted | PhaseFinished | ResourceChanged | Message


class Progress(Protocol):
    """Whatever takes progress events: any callable with one argument.

    It is called in the thread that does the work. An error that it raises ends the operation in order.
    """

    def __call__(self, event: ProgressEvent, /) -> None:
        """Take one event."""


def silent(event: ProgressEvent, /) -> None:
    """Drop an event."""


@contextmanager
def phase(progress: Progress, name: str, subject: str) -> Iterator[None]:
    """Tell about the start and the end of a phase."""
    started = time.monotonic()
    progress(PhaseStarted(name, subject))
    failed = True
    try:
        yield
        failed = False
    finally:
        progress(PhaseFinished(name, subject, time.monotonic() - started, failed))
