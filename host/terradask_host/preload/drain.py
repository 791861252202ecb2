"""Drain a worker's host that AWS may reclaim: no new tasks, results move, running tasks finish."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from terradask_host.preload.worker_admission import NAMES_OPERATION

#: The operation by which a worker's host requests a drain from the scheduler.
DRAIN_OPERATION = "terradask_empty"

POLL_SECONDS = 0.5

#: Longest wait of the next host for the previous one's replacement: the cluster may have shrunk.
REPLACEMENT_SECONDS = 900.0


def allow_draining(scheduler: Any) -> None:
    """Let workers' hosts request a drain: one at a time, the next once it has been replaced.

    Without replacements, hosts are drained slowly and not all at once.
    """
    turn, before = asyncio.Lock(), 0

    async def drain(names: list[str]) -> bool:
        """Drain these workers; return whether their data had space elsewhere."""
        nonlocal before
        from distributed.metrics import time as dask_time

        async with turn:
            until = dask_time() + REPLACEMENT_SECONDS
            while len(scheduler.running) < before and dask_time() < until:
                await asyncio.sleep(POLL_SECONDS)
            before = len(scheduler.running)
            if not await empty(scheduler, names):
                before = 0
                return False
            return True

    scheduler.handlers[DRAIN_OPERATION] = drain


async def empty(scheduler: Any, names: list[str]) -> bool:
    """Give these workers no new tasks, move their data, wait for their running tasks.

    Return whether other workers had memory for the data.
    """
    from distributed.metrics import time as dask_time

    retired = await scheduler.retire_workers(names=names, close_workers=False, remove=False)
    if len(retired) < len(names):
        return False
    since = dask_time()
    # Their heartbeats report running tasks.
    while any(
        str(worker.name) in names and (worker.last_seen <= since or worker.executing)
        for worker in scheduler.workers.values()
    ):
        await asyncio.sleep(POLL_SECONDS)
    return True


async def joined_names(scheduler: Any, names: list[str]) -> list[str]:
    """Return the scheduler's names of a host's workers.

    A class that makes several workers of one numbers them. Other names stay, joined or not.
    """
    found: list[str] = await getattr(scheduler, NAMES_OPERATION)(names=names)
    numbered = [name for name in found if name not in names]
    several = {name.rpartition("-")[0] for name in numbered}
    return [name for name in names if name not in several] + numbered


def at_scheduler(address: str, security: Any) -> Any:
    """Return a connection to the scheduler for a worker's host, for ``async with``."""
    from distributed.core import rpc

    return rpc(address, connection_args=security.get_connection_args("worker"))


async def request_drain(names: list[str], address: str, security: Any) -> bool:
    """Request a drain of a host's workers; return afterwards whether they were drained."""
    try:
        async with at_scheduler(address, security) as scheduler:
            names = await joined_names(scheduler, names)
            drained = bool(await getattr(scheduler, DRAIN_OPERATION)(names=names))
    except Exception as error:  # noqa: BLE001 - any error: AWS has only recommended it
        print(f"can't be drained: {type(error).__name__}: {error}", file=sys.stderr)
        return False
    if not drained:
        which = ", ".join(names)
        why = f"the data of all of {which} can't be moved elsewhere: they continue to work"
        print(why, file=sys.stderr)
    return drained
