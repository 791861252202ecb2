"""Dask's clients of a cluster object: what they ask of it, and their end with the process.

Clusters and clients of a process that was forked belong to its parent: their event loop runs in a
thread of the parent's alone. Whatever a child did with it would wait for ever, or change what the
parent's loop waits for: both have the same ``epoll``.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import distributed.client as dasks
from distributed import Client, utils
from distributed.deploy.spec import SpecCluster

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


def leave_clusters_to_parent(kind: type[SpecCluster]) -> None:
    """In a child: disown all clusters of a kind, and take their clients for closed."""
    for cluster in list(SpecCluster._instances):
        if isinstance(cluster, kind):
            cluster._health.disown()
    for client in list(Client._instances):
        if isinstance(client.cluster, kind):
            _leave(client)
    if utils._offload_executor._threads:
        # It believes that its thread is here.
        utils._offload_executor = ThreadPoolExecutor(1, thread_name_prefix="Dask-Offload")


def _leave(client: Any) -> None:
    # It isn't closed once more at the exit, and its futures ask it for nothing.
    client.status = "closed"
    client.generation += 1
    dasks._del_global_client(client)
    if dasks._current_client.get() is client:
        dasks._current_client.set(None)
    if client._set_as_default and dasks._get_global_client() is None:
        # What is computed here isn't by this cluster, as after a client's end.
        with client._set_config:
            pass


def leave_at_fork(kind: type[SpecCluster]) -> None:
    """Leave clusters of a kind to their process in all children that it forks."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: leave_clusters_to_parent(kind))
