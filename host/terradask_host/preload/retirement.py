"""Tell retired workers from lost ones, and report the workers to the host program.

A heartbeat may overtake the scheduler's order to close, and then the worker's reason is only that
the scheduler doesn't know it; a hung worker that the scheduler gave up gets the same order.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from typing import Any

from terradask_host.preload.drain import at_scheduler
from terradask_host.rules.membership import instance_of

#: Operation by which a worker's host reads whether the scheduler retired one of its workers.
RETIRED_OPERATION = "terradask_retired"

#: Dask's reasons to close: a retired worker, and a hung one that the scheduler has given up.
RETIRED = "scheduler-remove-worker"

#: Longest wait for the scheduler.
ANSWER_SECONDS = 5.0


def remember_retired(scheduler: Any) -> None:
    """Answer workers' hosts from the scheduler's own events, which it keeps for an hour."""

    def retired(addresses: list[str]) -> bool:
        return any(left_in_order(scheduler, address) for address in addresses)

    scheduler.handlers[RETIRED_OPERATION] = retired


def left_in_order(scheduler: Any, address: str) -> bool:
    """Return whether a worker was retired, or closed in order, by the scheduler's events."""
    return any(
        event.get("action") == "remove-worker" and event.get("expected")
        for _, event in scheduler.get_events(address)
    )


async def was_retired(addresses: Sequence[str], scheduler: str, security: Any) -> bool | None:
    """Return whether the scheduler retired any of these workers; None if it doesn't answer."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            async with at_scheduler(scheduler, security) as remote:
                return bool(await getattr(remote, RETIRED_OPERATION)(addresses=list(addresses)))
    except (OSError, TimeoutError) as error:
        print(f"can't ask whether it was retired: {type(error).__name__}: {error}", file=sys.stderr)
        return None


async def report_workers(scheduler: Any, seconds: float, report: Callable[..., None]) -> None:
    """Report the names of a scheduler's workers while it runs.

    Includes those that came and left in between, and the hosts whose workers all left in order.
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
