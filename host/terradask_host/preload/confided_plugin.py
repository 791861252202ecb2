"""How a worker gets what was entrusted to its scheduler. Imported in the workers' processes, when Dask is configured."""

from __future__ import annotations

import asyncio
from typing import Any

from distributed.diagnostics.plugin import WorkerPlugin

from terradask_host.preload.secret_store import CONFIDED_OPERATION, take

NAME = "terradask-confided"

_TRIES = 3
_PAUSE_SECONDS = 1.0


class FetchConfided(WorkerPlugin):  # type: ignore[misc]  # distributed carries no types here
    """Fetches it before the worker gets its first task, and each time there is something new. Holds nothing itself."""

    name = NAME

    async def setup(self, worker: Any) -> None:
        """Fetch it."""
        for attempt in range(_TRIES):
            try:
                found = await getattr(worker.scheduler, CONFIDED_OPERATION)()
            except OSError:
                if attempt == _TRIES - 1:
                    raise
                await asyncio.sleep(_PAUSE_SECONDS)
            else:
                take(found["environ"], found["credentials"])
                return
