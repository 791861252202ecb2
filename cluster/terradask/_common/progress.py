"""Events that report a long operation to a callback. The library never prints."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from terradask._common.once import OncePerCause
from terradask.errors import TerraformCancelled

logger = logging.getLogger("terradask")


@dataclass(frozen=True)
class PhaseStarted:
    """The start of a phase."""

    #: ``resolve``, ``synthesise``, ``init``, ``plan``, ``apply``, ``start``, ``attach``, ….
    phase: str
    #: Its subject: ``network``, or a cluster's name.
    subject: str


@dataclass(frozen=True)
class PhaseFinished:
    """The end of a phase."""

    #: `phase`, `subject`: as in `PhaseStarted`.
    phase: str
    subject: str
    #: Its duration.
    seconds: float
    #: Whether it ended with an error or an interruption.
    failed: bool = False
    #: Whether it ended with an interruption.
    interrupted: bool = False


@dataclass(frozen=True)
class ResourceChanged:
    """The start or the end of Terraform's work on one resource."""

    #: The stack.
    subject: str
    #: The resource.
    address: str
    #: ``create``, ``update``, ``delete``, ….
    action: str
    #: ``started``, ``finished``, ``failed`` or ``interrupted``.
    state: str
    #: `done`, `total`: numbers of finished and of all resources.
    done: int
    total: int
    #: The duration of this one.
    seconds: float | None = None


@dataclass(frozen=True)
class PlannedHosts:
    """Hosts that a start is going to launch in one Auto Scaling group."""

    #: The group, by its name in the cluster.
    group: str
    number: int
    market: str
    zones: tuple[str, ...]
    #: Instance types, in the order in which they are tried.
    instance_types: tuple[str, ...]


@dataclass(frozen=True)
class LaunchPlanned:
    """The hosts of a start, before anything of it is made."""

    #: The cluster.
    subject: str
    hosts: tuple[PlannedHosts, ...]


@dataclass(frozen=True)
class Message:
    """Information for a waiting user."""

    text: str
    #: Whether it stays visible after the operation.
    kept: bool = False


@dataclass(frozen=True)
class Warned:
    """A warning that stops nothing, and stays visible."""

    text: str


ProgressEvent = PhaseStarted | PhaseFinished | ResourceChanged | LaunchPlanned | Message | Warned


#: A callback for progress events in the working thread. An error that it raises ends the operation
#: cleanly.
Progress = Callable[[ProgressEvent], None]


def silent(event: ProgressEvent, /) -> None:
    """Drop an event."""


def warnings_logged(event: ProgressEvent, /) -> None:
    """Log warnings, for callers without a callback; Python shows them on standard error, unless
    logging is configured.
    """
    if isinstance(event, Warned):
        logger.warning("%s", event.text)


@dataclass(eq=False)
class KeptOnce:
    """Passes events to `progress`; of those that stay visible, each text once: a check and the
    start after it find the same.
    """

    progress: Progress
    _texts: OncePerCause = field(default_factory=OncePerCause, init=False, repr=False)

    def __call__(self, event: ProgressEvent, /) -> None:
        if isinstance(event, Warned) or (isinstance(event, Message) and event.kept):
            if self._texts.is_new(event.text):
                self.progress(event)
        else:
            self.progress(event)


@contextmanager
def phase(progress: Progress, name: str, subject: str) -> Iterator[None]:
    """Report the start and the end of a phase."""
    started = time.monotonic()
    progress(PhaseStarted(name, subject))
    failed = interrupted = False
    try:
        yield
    except BaseException as error:
        failed, interrupted = True, is_interruption(error)
        raise
    finally:
        seconds = time.monotonic() - started
        progress(PhaseFinished(name, subject, seconds, failed, interrupted))


def is_interruption(error: BaseException) -> bool:
    """Return whether an error is Ctrl-C, a signal to end, or a cancellation."""
    return not isinstance(error, Exception) or isinstance(
        error, InterruptedError | TerraformCancelled
    )
