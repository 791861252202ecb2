"""Limit one client's polling of AWS for a cluster to two calls a second."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

#: AWS (documented, api-limits): EC2 and Auto Scaling limit the rate of calls by account and region.
#: https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html,
#: https://docs.aws.amazon.com/autoscaling/ec2/APIReference/Welcome.html
POLL_INTERVAL_SECONDS = 0.5


class RateLimiter:
    """The polling calls of one client for one cluster: one at a time, in order of requests, half a
    second apart.

    All polling shares them, except that for the scheduler's address: hosts' reports, groups and
    scaling activities. The interval counts from a call's end, so that AWS never gets three calls
    within a second. A user's call, such as scaling, is only noted: it doesn't wait, and polling
    waits for it.

    Safe to use from several threads and event loops.
    """

    def __init__(
        self,
        poll_interval_seconds: float = POLL_INTERVAL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds = poll_interval_seconds
        self._clock = clock
        self._queue: deque[object] = deque()
        self._calling: object | None = None
        self._free_at = -math.inf
        self._lock = threading.Lock()

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Wait for a turn in a thread, and hold it for one call."""
        place = self.queue_up()
        try:
            while seconds := self.wait_seconds(place):
                time.sleep(seconds)
            yield
        finally:
            self.leave(place)

    @asynccontextmanager
    async def async_slot(self) -> AsyncIterator[None]:
        """Like `slot`, on an event loop."""
        place = self.queue_up()
        try:
            while seconds := self.wait_seconds(place):
                await asyncio.sleep(seconds)
            yield
        finally:
            self.leave(place)

    def note(self) -> None:
        """Note a call without a slot."""
        with self._lock:
            self._free_at = max(self._free_at, self._clock()) + self._seconds

    def queue_up(self) -> object:
        """Return a new place at the end of the queue."""
        place = object()
        with self._lock:
            self._queue.append(place)
        return place

    def wait_seconds(self, place: object) -> float:
        """Return the wait until the next try; 0 if this place has its turn, and now holds it."""
        with self._lock:
            seconds = max(self._free_at - self._clock(), 0.0)
            if place is self._queue[0]:
                self._calling = place if not seconds else None
                return seconds
            # Places before it may leave without a call.
            return min(seconds + self._queue.index(place) * self._seconds, self._seconds)

    def leave(self, place: object) -> None:
        """Leave the queue; after a call the next one waits."""
        with self._lock:
            self._queue.remove(place)
            if place is self._calling:
                self._calling = None
                self._free_at = max(self._free_at, self._clock() + self._seconds)
