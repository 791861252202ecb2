"""Secrets that a client sends to its cluster's processes, kept in memory: private environment
variables and credentials.

The scheduler stores them and notifies the workers to fetch them; later workers fetch them when they
register. Messages from the scheduler to workers may end up in Dask's log (with DEBUG) or in a dump
of a cluster's state, so they don't carry secrets.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any

from terradask_host.preload import credentials_endpoint
from terradask_host.preload.referenced_secrets import VARIABLE

#: How often to retry a worker that couldn't be notified.
TRIES = 3
RETRY_SECONDS = 1.0


class SecretStore:
    """Stores the secrets that clients send to a scheduler, for all current and later workers."""

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self._environ: dict[str, str] = {}
        self._credentials: dict[str, str] | None = None
        self._telling = asyncio.Lock()
        scheduler.handlers[credentials_endpoint.FETCH_OPERATION] = self.fetch
        if VARIABLE in os.environ:
            # First of all plugins: the others may need the run's secrets.
            self._add_plugin()

    async def take(
        self, environ: Mapping[str, str], credentials: Mapping[str, str]
    ) -> dict[str, list[str]]:
        """Answer `commands.SendSecrets`: ``missed`` are workers that could not be notified."""
        async with self._telling:
            self._environ |= environ
            self._credentials = dict(credentials) or self._credentials
            credentials_endpoint.take(self._environ, self._credentials)
            return {"missed": await self._notify_workers()}

    def fetch(self) -> dict[str, Any]:
        """Return all secrets, for a worker."""
        return {"environ": self._environ, "credentials": self._credentials}

    def _add_plugin(self) -> dict[str, Any]:
        """Have every worker that registers from now on fetch secrets; return the message for those
        that have registered.
        """
        from distributed.protocol.pickle import dumps

        # needs distributed, which had to be configured first
        from terradask_host.preload.confided_plugin import NAME, FetchConfided

        plugin = dumps(FetchConfided())
        self._scheduler.worker_plugins[NAME] = plugin
        return {"op": "plugin-add", "plugin": plugin, "name": NAME}

    async def _notify_workers(self) -> list[str]:
        message = self._add_plugin()
        pending = list(self._scheduler.workers)
        for attempt in range(TRIES):
            if attempt:
                await asyncio.sleep(RETRY_SECONDS)
                # A worker that left needs no secrets.
                pending = [address for address in pending if address in self._scheduler.workers]
            if not pending:
                break
            answers = await self._scheduler.broadcast(
                msg=message, workers=pending, on_error="return"
            )
            pending = [
                address
                for address, answer in answers.items()
                if not isinstance(answer, dict) or answer.get("status") != "OK"
            ]
        workers = self._scheduler.workers
        return sorted(str(workers[address].name) for address in pending if address in workers)
