"""Install packages edited at the client on a running cluster, and restart workers with imports of
them.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

#: Share of the workers restarted at a time: the others keep the results.
_SHARE = 4
_RESTART_SECONDS = 60.0


def syncing(scheduler: Any) -> Callable[[Mapping[str, bytes]], Awaitable[dict[str, Any]]]:
    """Return a handler that installs packages on the scheduler and all workers' hosts.

    It restarts workers some at a time, after their results have moved to the others.
    """
    turn = asyncio.Lock()

    async def sync(wheels: Mapping[str, bytes]) -> dict[str, Any]:
        """Answer `commands.UpdatePackages`, also with the number of restarts."""
        from distributed.protocol.pickle import dumps

        from terradask_host.preload import synced_plugin

        async with turn:
            failed: dict[str, str] = {}
            try:
                await asyncio.to_thread(synced_plugin.install, wheels)
            except (OSError, RuntimeError, subprocess.TimeoutExpired) as error:
                failed[scheduler.address] = str(error)
            answers = await scheduler.register_nanny_plugin(
                None,
                plugin=dumps(synced_plugin.InstallWheels(wheels)),
                name=synced_plugin.NAME,
                idempotent=False,
            )
            failed |= {
                address: str(answer.get("exception_text", "it failed"))
                for address, answer in answers.items()
                if answer["status"] != "OK"
            }
            if failed:
                return {"failed": failed, "lost": [], "restarted": 0}
            return {"failed": {}, **await _restart_in_order(scheduler)}

    return sync


async def _restart_in_order(scheduler: Any) -> dict[str, Any]:
    workers = [address for address, worker in scheduler.workers.items() if worker.nanny]
    size = max(1, len(workers) // _SHARE)
    lost: list[str] = []
    for start in range(0, len(workers), size):
        some = [
            address for address in workers[start : start + size] if address in scheduler.workers
        ]
        names = {address: str(scheduler.workers[address].name) for address in some}
        moved = await scheduler.retire_workers(workers=some, close_workers=False, remove=False)
        lost += [names[address] for address in some if address not in moved]
        await scheduler.restart_workers(
            workers=some,
            timeout=_RESTART_SECONDS,
            on_error="return",
            stimulus_id="terradask-synced-packages",
        )
    return {"lost": lost, "restarted": len(workers)}
