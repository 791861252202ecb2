"""The host program's commands to a Dask process, and the events that this reports."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

#: Reports an event, with its facts.
Report = Callable[..., None]


class Leave:
    """The host program's commands: to drain, and to close, with a time limit.

    `others` are the handlers of its other commands, by command; a server adds its own.
    """

    def __init__(self) -> None:
        self.drain = asyncio.Event()
        self._given = asyncio.Event()
        self.seconds = 0.0
        self.others: dict[str, Callable[[dict[str, Any]], None]] = {
            "drain": lambda _: self.drain.set()
        }

    def give(self, seconds: float) -> None:
        """Give the command."""
        self.seconds = seconds
        self._given.set()

    async def wait(self) -> None:
        """Return once the command is given."""
        await self._given.wait()
