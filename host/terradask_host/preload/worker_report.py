"""Report a scheduler's workers to the host program at intervals: it knows which hosts there should
be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from terradask_host.preload.retirement import left_in_order
from terradask_host.rules.join_watchdog import instance_of


async def report_workers(scheduler: Any, seconds: float, report: Callable[..., None]) -> None:
    """Report the names of a scheduler's workers while it runs, including those that came and left
    in between; and those that left in order, of hosts that have none left.
    """
    from distributed.diagnostics.plugin import SchedulerPlugin

    came: set[str] = set()
    retired: set[str] = set()
    names: dict[str, str] = {}

    class NoteWorkers(SchedulerPlugin):  # type: ignore[misc]
        def add_worker(self, scheduler: Any, worker: str) -> None:
            names[worker] = str(scheduler.workers[worker].name)
            came.add(names[worker])

        def remove_worker(self, scheduler: Any, worker: str, **_: object) -> None:
            name = names.pop(worker, None)
            if name is not None and left_in_order(scheduler, worker):
                retired.add(name)

    scheduler.add_plugin(NoteWorkers(), name="terradask-roll-call")
    while True:
        await asyncio.sleep(seconds)
        here = {str(worker.name) for worker in scheduler.workers.values()}
        hosts = {instance_of(name) for name in here}
        gone = sorted(name for name in retired if instance_of(name) not in hosts)
        report("workers", names=sorted(came | here), retired=gone)
        came.clear()
        retired.clear()
