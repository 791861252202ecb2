"""How often AWS is asked."""

from __future__ import annotations

import asyncio
import math
import time

#: AWS counts calls of an account, not of a cluster.
_SECONDS_A_CALL = 0.5


class Pace:
    """How long to wait between looks at AWS: short while something is on its way, longer and longer otherwise.

    Two calls a second at most, whatever is on its way.
    """

    def __init__(self, shortest_seconds: float = 0.25, longest_seconds: float = 15.0) -> None:
        self._shortest = shortest_seconds
        self._longest = longest_seconds
        self._next = shortest_seconds
        self._wake = asyncio.Event()
        self._looked_at = -math.inf

    def hurry(self) -> None:
        """Look again soon, and often from then on."""
        self._wake.set()

    async def wait(self, *, calls: int = 1, longest_seconds: float | None = None) -> None:
        """Wait for the next look: at least the shortest time, however often somebody is in a hurry.

        Parameters
        ----------
        calls
            How many calls the last look took.
        longest_seconds
            Longest wait, where something is awaited.
        """
        longest = self._longest if longest_seconds is None else longest_seconds
        earliest = self._looked_at + calls * _SECONDS_A_CALL
        try:
            await asyncio.wait_for(self._wake.wait(), min(self._next, longest))
        except TimeoutError:
            self._next = min(self._next * 2, longest)
        else:
            self._wake.clear()
            self._next = self._shortest
            await asyncio.sleep(self._shortest)
        await asyncio.sleep(max(earliest - time.monotonic(), 0))
        self._looked_at = time.monotonic()
