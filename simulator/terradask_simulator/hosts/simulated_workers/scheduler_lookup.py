"""Where the scheduler of a run is: looked up once for all hosts of a process."""

from __future__ import annotations

import asyncio

from terradask_host.documents import SchedulerAddress
from terradask_simulator.hosts.simulated_workers.run import Run, of_run

__all__ = ["SchedulerLookup"]

_POLL_SECONDS = 0.5
_CONNECT_SECONDS = 5.0


class SchedulerLookup:
    """The scheduler of a run, known to all hosts of a process."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._lock = asyncio.Lock()
        self._known: SchedulerAddress | None = None

    async def find(self) -> SchedulerAddress:
        """Return ``scheduler.json`` of this run, once its scheduler listens; one host polls for
        all.
        """
        async with self._lock:
            while self._known is None:
                document = of_run(
                    await asyncio.to_thread(self._run.objects.read_document, "scheduler.json"),
                    self._run.run_id,
                )
                # One that has died is still named there until another comes up.
                address = None if document is None else SchedulerAddress.read(document)
                if address is not None and await _listens(address.private_address):
                    self._known = address
                else:
                    await asyncio.sleep(_POLL_SECONDS)
            return self._known

    def forget(self, scheduler: SchedulerAddress) -> None:
        """Look it up again: this scheduler is lost."""
        if self._known == scheduler:
            self._known = None


async def _listens(address: str) -> bool:
    host, _, port = address.rpartition("://")[2].rpartition(":")
    try:
        _, writer = await asyncio.wait_for(
            asyncio.open_connection(host, int(port)), _CONNECT_SECONDS
        )
    except OSError:
        return False
    writer.close()
    return True
