"""The host program's commands to a Dask process, and this process's requests to it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from typing import Any

#: Reports an event, with its facts.
Report = Callable[..., None]


class Leave:
    """The host program's commands: drain, and close with a time limit.

    `others` are handlers of its other commands, by command; a server adds its own.
    """

    def __init__(self) -> None:
        self.drain = asyncio.Event()
        self._given = asyncio.Event()
        self.seconds = 0.0
        self.others: dict[str, Callable[[dict[str, Any]], None]] = {
            "drain": lambda _: self.drain.set()
        }

    def give(self, seconds: float) -> None:
        """Signal the command to close."""
        self.seconds = seconds
        self._given.set()

    async def wait(self) -> None:
        """Wait for the command to close."""
        await self._given.wait()


class Questions:
    """Requests to the host program, which answers by number. Used from one event loop."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Mapping[str, Any]]] = {}

    async def ask(self, event: str, seconds: float | None, **facts: Any) -> Mapping[str, Any]:
        """Report an event, and return the answer. Raises ``TimeoutError``."""
        number = next(self._numbers)
        waiting: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        try:
            self._report(event, number=number, **facts)
            async with asyncio.timeout(seconds):
                return await waiting
        finally:
            del self._waiting[number]

    def take(self, answer: Mapping[str, Any]) -> None:
        """Receive an answer."""
        waiting = self._waiting.get(answer["number"])
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)
