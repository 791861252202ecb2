"""Who is at the scheduler, told to the host program every so often: it knows which hosts should be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


async def call_roll(scheduler: Any, seconds: float, tell: Callable[..., None]) -> None:
    """Tell the names of a scheduler's workers, for as long as it runs.

    Parameters
    ----------
    scheduler
        A `distributed.Scheduler`.
    seconds
        How often.
    tell
        Tells the host program an event.
    """
    while True:
        await asyncio.sleep(seconds)
        tell("workers", names=[str(worker.name) for worker in scheduler.workers.values()])
