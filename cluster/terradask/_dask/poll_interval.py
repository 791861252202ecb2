"""The time between polls of AWS."""

from __future__ import annotations

import asyncio


class PollInterval:
    """The time between polls of AWS: short after a change, longer and longer without one."""

    def __init__(self, shortest_seconds: float = 0.25, longest_seconds: float = 15.0) -> None:
        self._shortest = shortest_seconds
        self._longest = longest_seconds
        self._next = shortest_seconds
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Poll again soon, and restart from the shortest interval."""
        self._wake.set()

    async def wait(self, *, longest_seconds: float | None = None) -> None:
        """Wait for the next poll: at least the shortest time, however often it is woken."""
        longest = self._longest if longest_seconds is None else longest_seconds
        try:
            await asyncio.wait_for(self._wake.wait(), min(self._next, longest))
        except TimeoutError:
            self._next = min(self._next * 2, longest)
        else:
            self._wake.clear()
            self._next = self._shortest
            await asyncio.sleep(self._shortest)
