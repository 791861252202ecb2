"""Clusters and clients of a process that was forked belong to its parent.

Their event loop runs in a thread of the parent's alone. Whatever a child did with it would wait for
ever, or change what the parent's loop waits for: both have the same ``epoll``.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import distributed.client as dasks
from distributed import Client, utils
from distributed.deploy.spec import SpecCluster


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
