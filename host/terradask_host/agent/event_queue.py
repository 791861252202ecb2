"""One queue for everything that happens to a host: its Dask process speaks or ends, it is asked to
stop.
"""

from __future__ import annotations

import queue
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from terradask_host.rules.policy import Exit


@dataclass(frozen=True)
class Stop:
    """The instance is being shut down, the unit is stopped, or AWS takes the instance back.

    Parameters
    ----------
    reason
        Which, for the report.
    until
        By when the host must be gone, on the monotonic clock. None: AWS doesn't take the instance
        back.
    """

    reason: str
    until: float | None = None

    @property
    def interrupted(self) -> bool:
        """Whether AWS takes the instance back: the cluster still wants a host in its place."""
        return self.until is not None

    def seconds_left(self, usual_seconds: float) -> float:
        """Return for how long closing may take: as long as ever, unless the host must be gone
        before; at least a second.
        """
        if self.until is None:
            return usual_seconds
        return max(min(usual_seconds, self.until - time.monotonic()), 1.0)


@dataclass(frozen=True)
class Recommended:
    """AWS recommends to replace this spot instance: it is likelier than usual to be taken back."""


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


Event = Stop | Recommended | ChildSaid | ChildEnded


class StopRequested(BaseException):
    """Raised at a safe point once the host has been asked to stop."""

    def __init__(self, stop: Stop) -> None:
        super().__init__(stop.reason)
        self.stop = stop


class EventQueue:
    """Events in the order in which they happened.

    ``SimpleQueue.put`` is reentrant, so that a signal handler may call :meth:`put`, where a lock of
    our own could deadlock.
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
                    raise StopRequested(event)
                kept.append(event)
        finally:
            self._aside.extendleft(reversed(kept))
