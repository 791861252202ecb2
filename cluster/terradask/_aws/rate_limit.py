"""How often one client asks AWS how a cluster is: two calls a second at most, from all its parts
together.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

#: AWS counts calls of an account, not of a cluster.
SECONDS_A_LOOK = 0.5


class RateLimiter:
    """The looks of one client at one cluster: one at a time, in the order in which they are asked
    for, and half a second in between.

    All polling shares them, save that for the scheduler's address: for hosts' reports, of the
    groups and of what AWS says about them. A look counts from its answer, so that AWS never sees
    three within a second, however long one is on its way. What somebody asks for himself, such as
    scaling, is only noted: it waits for nothing, and polling makes way for it.

    Safe to use from several threads and event loops.
    """

    def __init__(
        self, seconds_a_look: float = SECONDS_A_LOOK, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds = seconds_a_look
        self._clock = clock
        self._queue: deque[object] = deque()
        self._looking: object | None = None
        self._free_at = -math.inf
        self._lock = threading.Lock()

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Wait for a turn, in a thread, and hold it for the length of one call."""
        place = self.queue_up()
        try:
            while seconds := self.wait_seconds(place):
                time.sleep(seconds)
            yield
        finally:
            self.leave(place)

    @asynccontextmanager
    async def async_slot(self) -> AsyncIterator[None]:
        """As `turn`, on an event loop."""
        place = self.queue_up()
        try:
            while seconds := self.wait_seconds(place):
                await asyncio.sleep(seconds)
            yield
        finally:
            self.leave(place)

    def note(self, calls: int = 1) -> None:
        """Note calls that are made without a turn."""
        with self._lock:
            self._free_at = max(self._free_at, self._clock()) + calls * self._seconds

    def queue_up(self) -> object:
        """Return a new place at the queue's end."""
        place = object()
        with self._lock:
            self._queue.append(place)
        return place

    def wait_seconds(self, place: object) -> float:
        """Return how long to wait before asking again; 0 when it is this place's turn, which it
        then holds until it leaves.
        """
        with self._lock:
            seconds = max(self._free_at - self._clock(), 0.0)
            if place is self._queue[0]:
                self._looking = place if not seconds else None
                return seconds
            # Those before it may leave without a look.
            return min(seconds + self._queue.index(place) * self._seconds, self._seconds)

    def leave(self, place: object) -> None:
        """Leave the queue; after a look the next one waits."""
        with self._lock:
            self._queue.remove(place)
            if place is self._looking:
                self._looking = None
                self._free_at = max(self._free_at, self._clock() + self._seconds)
