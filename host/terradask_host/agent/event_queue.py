"""One queue for all events of a host: messages and the end of its Dask process, stop requests."""

from __future__ import annotations

import queue
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from terradask_host.errors import HostError
from terradask_host.rules.policy import Exit


@dataclass(frozen=True)
class Stop:
    """The instance is shut down, the unit is stopped, or AWS interrupts the instance.

    `reason` is for the report. `until` is the deadline on the monotonic clock; None: AWS
    doesn't interrupt the instance.
    """

    reason: str
    until: float | None = None

    @property
    def interrupted(self) -> bool:
        """Whether AWS interrupts the instance: the cluster still wants a host in its place."""
        return self.until is not None

    def seconds_left(self, usual_seconds: float) -> float:
        """Return the time left for closing: the usual time or until the deadline, at least 1 s."""
        if self.until is None:
            return usual_seconds
        return max(min(usual_seconds, self.until - time.monotonic()), 1.0)


@dataclass(frozen=True)
class Recommended:
    """A rebalance recommendation: its interruption risk has risen. AWS (spot-rebalance)"""


@dataclass(frozen=True)
class Failed:
    """The host can't go on, for this reason."""

    error: HostError


@dataclass(frozen=True)
class ChildMessage:
    """A message of the Dask process: its event and its facts."""

    child: int
    event: str
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ChildEnded:
    """The Dask process has ended."""

    child: int
    end: Exit


Event = Stop | Recommended | Failed | ChildMessage | ChildEnded


class StopRequested(BaseException):
    """Raised at a safe point after a stop request."""

    def __init__(self, stop: Stop) -> None:
        super().__init__(stop.reason)
        self.stop = stop


class EventQueue:
    """Events in the order in which they happened.

    ``SimpleQueue.put`` is reentrant, so a signal handler may call :meth:`put`; an own lock could
    deadlock.
    """

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._aside: deque[Event] = deque()

    def put(self, event: Event) -> None:
        """Add an event; safe from threads and signal handlers."""
        self._queue.put(event)

    def next(self, timeout_seconds: float) -> Event | None:
        """Return the next event, or None on timeout."""
        if self._aside:
            return self._aside.popleft()
        try:
            return self._queue.get(timeout=max(timeout_seconds, 0.0))
        except queue.Empty:
            return None

    def pause(self, seconds: float) -> None:
        """Wait, and keep messages of the Dask process for later.

        Raises `StopRequested` as soon as the host gets a stop request.
        """
        end = time.monotonic() + seconds
        kept: list[Event] = []
        try:
            while True:
                event = self.next(end - time.monotonic())
                if event is None:
                    return
                if isinstance(event, Stop):
                    raise StopRequested(event)
                kept.append(event)
        finally:
            self._aside.extendleft(reversed(kept))
