"""Dask's clients of a cluster object: what they ask of it, and their end."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from distributed import Client

#: Longest wait for a client to close while the process ends, in seconds.
_SECONDS = 2


def is_shutdown_of_client() -> bool:
    """Return whether the caller of the calling function is `distributed.Client.shutdown`.

    It calls a cluster's ``close``, as others do, but means the scheduler and the workers.
    """
    return sys._getframe(2).f_code is Client._shutdown.__code__


def leave_at_exit(cluster: Any, stop_parts: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """Begin to stop what a cluster object does, while the process ends, and to close its clients,
    which would look for the cluster when it has ended; return what waits for them.
    """
    cluster.loop.add_callback(stop_parts)
    closing = [
        asyncio.run_coroutine_threadsafe(client._close(fast=True), client.loop.asyncio_loop)
        for client in list(Client._instances)
        if client.cluster is cluster and not client.asynchronous
    ]

    def wait() -> None:
        for each in closing:
            with contextlib.suppress(Exception):
                each.result(_SECONDS)

    return wait
