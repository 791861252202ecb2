"""Draining a worker's host that AWS is likelier than usual to take back: no new tasks, results moved, what runs is finished."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

#: The operation by which a worker's host asks the scheduler for that.
DRAIN_OPERATION = "terradask_empty"

POLL_SECONDS = 0.5

#: So long, at most, the next host waits for the replacement of the one before: the cluster may have been made smaller.
REPLACEMENT_SECONDS = 900.0


def allow_draining(scheduler: Any) -> None:
    """Let hosts of workers ask a scheduler to be drained: one at a time, the next when as many workers run as before.

    Where AWS launches no other, hosts are given up slowly, and not all at once.
    """
    turn, before = asyncio.Lock(), 0

    async def drain(names: list[str]) -> bool:
        """Give no new tasks to these workers, move what they hold, and wait for what they run; tell whether there was room for it."""
        nonlocal before
        from distributed.metrics import time as dask_time

        async with turn:
            until = dask_time() + REPLACEMENT_SECONDS
            while len(scheduler.running) < before and dask_time() < until:
                await asyncio.sleep(POLL_SECONDS)
            before = len(scheduler.running)
            retired = await scheduler.retire_workers(names=names, close_workers=False, remove=False)
            if len(retired) < len(names):
                before = 0
                return False
            since = dask_time()
            # They tell with each heartbeat what they run.
            while any(
                str(worker.name) in names and (worker.last_seen <= since or worker.executing) for worker in scheduler.workers.values()
            ):
                await asyncio.sleep(POLL_SECONDS)
            return True

    scheduler.handlers[DRAIN_OPERATION] = drain


async def ask_to_drain(workers: list[Any], address: str, security: Any) -> bool:
    """Ask the scheduler to drain a host's workers; return when they are, with whether they could be."""
    from distributed.core import rpc

    names = [str(worker.name) for worker in workers]
    try:
        async with rpc(address, connection_args=security.get_connection_args("worker")) as scheduler:
            drained = bool(await getattr(scheduler, DRAIN_OPERATION)(names=names))
    except Exception as error:  # noqa: BLE001 - whatever the scheduler answers: AWS has only recommended it
        print(f"can't be emptied: {type(error).__name__}: {error}", file=sys.stderr)
        return False
    if not drained:
        print(f"the data of all of {', '.join(names)} can't be moved elsewhere: they work on", file=sys.stderr)
    return drained
