"""One queue for everything that happens to a host: its Dask process speaks or ends, somebody asks it to stop."""

from __future__ import annotations

import queue
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from terradask_host.policy import Exit


@dataclass(frozen=True)
class Stop:
    """The instance is being shut down, or somebody stopped the unit."""

    signal_name: str


@dataclass(frozen=True)
class ChildSaid:
    """A line from the Dask process: what, and its facts."""

    child: int
    event: str
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ChildEnded:
    """The Dask process is gone."""

    child: int
    end: Exit


Event = Stop | ChildSaid | ChildEnded


class StopRequested(BaseException):
    """Raised at a safe point once the host has been asked to stop."""

    def __init__(self, signal_name: str) -> None:
        super().__init__(signal_name)
        self.signal_name = signal_name


class Mailbox:
    """Events in the order in which they happened.

    ``SimpleQueue.put`` is reentrant, so that a signal handler may call :meth:`put`, where a lock of our own could deadlock.
    """

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._aside: deque[Event] = deque()

    def put(self, event: Event) -> None:
        """Add an event; safe from threads and signal handlers."""
        self._queue.put(event)

    def next(self, timeout_seconds: float) -> Event | None:
        """Return the next event, or None when none came in time."""
        if self._aside:
            return self._aside.popleft()
        try:
            return self._queue.get(timeout=max(timeout_seconds, 0.0))
        except queue.Empty:
            return None

    def pause(self, seconds: float) -> None:
        """Wait, and keep whatever the Dask process says meanwhile for later.

        Raises
        ------
        StopRequested
            As soon as the host is asked to stop.
        """
        end = time.monotonic() + seconds
        kept: list[Event] = []
        try:
            while True:
                event = self.next(end - time.monotonic())
                if event is None:
                    return
                if isinstance(event, Stop):
                    raise StopRequested(event.signal_name)
                kept.append(event)
        finally:
            self._aside.extendleft(reversed(kept))
