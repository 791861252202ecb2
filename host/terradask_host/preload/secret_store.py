"""Secrets that a client sends to the processes of its cluster: private environment variables and credentials, in their memory alone.

The client tells the scheduler. That keeps it, and tells workers that there is something to be fetched, the later ones when they register:
what workers are sent unasked may end up in a log of Dask's (its messages, with DEBUG) or in a dump of a cluster's state.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from terradask_host.preload import process_secrets

#: The operation by which clients send; part of what they rely on.
SEND_OPERATION = "terradask_confide"

#: A worker that can't be told is tried again so often.
TRIES = 3
RETRY_SECONDS = 1.0


class SecretStore:
    """Keeps the secrets that clients send to a scheduler, and passes it to all workers, also those to come."""

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self._environ: dict[str, str] = {}
        self._credentials: dict[str, str] | None = None
        self._telling = asyncio.Lock()
        scheduler.handlers[SEND_OPERATION] = self.take
        scheduler.handlers[process_secrets.FETCH_OPERATION] = self.fetch

    async def take(self, sealed: Any) -> dict[str, list[str]]:
        """Take a client's ``environ`` or ``credentials``, or both: JSON in a wrapping that logs show nothing of.

        Return ``missed``: names of the workers that could not be told.
        """
        given = json.loads(_unsealed(sealed))
        async with self._telling:
            self._environ |= given.get("environ") or {}
            self._credentials = given.get("credentials") or self._credentials
            process_secrets.take(self._environ, self._credentials)
            return {"missed": await self._tell_workers()}

    def fetch(self) -> dict[str, Any]:
        """Return all that there is, for a worker."""
        return {"environ": self._environ, "credentials": self._credentials}

    async def _tell_workers(self) -> list[str]:
        from distributed.protocol.pickle import dumps

        from terradask_host.preload.confided_plugin import NAME, FetchConfided  # needs distributed, which had to be configured first

        plugin = dumps(FetchConfided())
        # Dask hands it to whoever registers from now on.
        self._scheduler.worker_plugins[NAME] = plugin
        message = {"op": "plugin-add", "plugin": plugin, "name": NAME}
        untold = list(self._scheduler.workers)
        for attempt in range(TRIES):
            if attempt:
                await asyncio.sleep(RETRY_SECONDS)
                # A worker that left needs nothing any more.
                untold = [address for address in untold if address in self._scheduler.workers]
            heard = await self._scheduler.broadcast(msg=message, workers=untold, on_error="return") if untold else {}
            untold = [address for address, answer in heard.items() if not _is_ok(answer)]
        return sorted(str(self._scheduler.workers[address].name) for address in untold if address in self._scheduler.workers)


def _is_ok(answer: Any) -> bool:
    return isinstance(answer, dict) and answer.get("status") == "OK"


def _unsealed(sealed: Any) -> bytes:
    from distributed.protocol import Serialized, deserialize

    found: bytes = deserialize(sealed.header, sealed.frames) if isinstance(sealed, Serialized) else sealed
    return found
