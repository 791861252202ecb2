"""Stand-ins for SpecCluster's scheduler and workers: the real ones run on AWS's instances."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from distributed.core import Status


class RemoteScheduler:
    """The scheduler of an attached cluster, with the interface that SpecCluster needs."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.status = Status.running

    def __await__(self) -> Generator[Any, Any, RemoteScheduler]:
        async def itself() -> RemoteScheduler:
            return self

        return itself().__await__()

    async def close(self) -> None:
        """Note that this client talks to it no more: its host is ended with its group."""
        self.status = Status.closed


class RemoteWorker:
    """A worker on an instance, for SpecCluster's ``worker_spec``; the group launches it."""
