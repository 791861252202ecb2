"""Fetch the scheduler's secrets on a worker. Imported in the workers' processes, after Dask is
configured.

The plugin is pickled by the names of this module and its class. Don't rename them: a cluster's
hosts may have two versions.
"""

from __future__ import annotations

import asyncio
from typing import Any

from distributed.diagnostics.plugin import WorkerPlugin

from terradask_host.preload.credentials_endpoint import FETCH_OPERATION, take
from terradask_host.preload.referenced_secrets import take_at_start

NAME = "terradask-confided"

TRIES = 3
RETRY_SECONDS = 1.0


class FetchConfided(WorkerPlugin):  # type: ignore[misc]  # distributed carries no types here
    """Fetches secrets before the worker's first task and after each change, without storing any."""

    name = NAME

    async def setup(self, worker: Any) -> None:
        """Fetch the run's own secrets from this host, then those that clients have sent."""
        take_at_start()
        for attempt in range(TRIES):
            try:
                found = await getattr(worker.scheduler, FETCH_OPERATION)()
            except OSError:
                if attempt == TRIES - 1:
                    raise
                await asyncio.sleep(RETRY_SECONDS)
            else:
                take(found["environ"], found["credentials"])
                return
