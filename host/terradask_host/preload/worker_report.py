"""Report a scheduler's workers to the host program at intervals: it knows which hosts there should
be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


async def report_workers(scheduler: Any, seconds: float, report: Callable[..., None]) -> None:
    """Report the names of a scheduler's workers while it runs, including those that came and left
    in between.
    """
    from distributed.diagnostics.plugin import SchedulerPlugin

    came: set[str] = set()

    class NoteWorkers(SchedulerPlugin):  # type: ignore[misc]
        def add_worker(self, scheduler: Any, worker: str) -> None:
            came.add(str(scheduler.workers[worker].name))

    scheduler.add_plugin(NoteWorkers(), name="terradask-roll-call")
    while True:
        await asyncio.sleep(seconds)
        came.update(str(worker.name) for worker in scheduler.workers.values())
        report("workers", names=sorted(came))
        came.clear()
