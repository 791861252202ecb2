"""Open the clusters of this process's functions: one for each request, at its first use."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from distributed import Client, LocalCluster

from terradask._dask.cluster import Cluster
from terradask._dask.functions.hardware import Hardware


@dataclass(frozen=True, eq=False)
class Opened:
    """A cluster in AWS, or processes on this machine, and its client, which is not the process's
    default client.
    """

    cluster: Cluster | LocalCluster
    client: Client

    @property
    def is_usable(self) -> bool:
        """Whether tasks may be sent to it."""
        ended = isinstance(self.cluster, Cluster) and self.cluster.ended is not None
        return not ended and self.client.status in ("running", "connecting")


def open_cluster(name: str, hardware: Hardware) -> Opened:
    """Attach to a function's cluster; start or create it if needed."""
    with ExitStack() as undo:
        # Without this, a failed attempt would keep the cluster while this process runs.
        cluster = undo.enter_context(Cluster(**{**hardware.arguments, "name": name}))
        if hardware.bounds is not None and cluster.origin != "attached":
            least, most = hardware.bounds
            cluster.adapt(minimum=least, maximum=most)
        opened = Opened(cluster, Client(cluster, set_as_default=False))
        undo.pop_all()
    return opened


def open_local(name: str, hardware: Hardware) -> Opened:
    """Start processes on this machine."""
    threads = (hardware.arguments.get("worker_options") or {}).get("nthreads")
    most = hardware.arguments["n_workers"] if hardware.bounds is None else hardware.bounds[1]
    cluster = LocalCluster(
        name=name,
        n_workers=min(most or _PROCESSORS, _PROCESSORS),
        threads_per_worker=threads,
        dashboard_address="127.0.0.1:0",
    )
    return Opened(cluster, Client(cluster, set_as_default=False))


_PROCESSORS = os.cpu_count() or 1


class FunctionClusters:
    """Open each cluster once, by its name, and again after it has ended."""

    def __init__(self, opener: Callable[[str, Hardware], Opened]) -> None:
        self._opener = opener
        self._reset()

    def _reset(self) -> None:
        self._open: dict[str, Opened] = {}
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._process = os.getpid()

    def opened(self, name: str) -> Opened | None:
        """Return the usable open cluster of a name, or None."""
        if self._process != os.getpid():
            # In a forked child, the open clusters belong to the parent.
            self._reset()
        found = self._open.get(name)
        return found if found is not None and found.is_usable else None

    def get(self, name: str, hardware: Hardware) -> Opened:
        """Return the open cluster of a name, or open it while other threads wait."""
        if (found := self.opened(name)) is not None:
            return found
        with self._locks[name]:
            if (found := self.opened(name)) is not None:
                return found
            if (ended := self._open.pop(name, None)) is not None:
                ended.client.close()
                ended.cluster.close()
            found = self._open[name] = self._opener(name, hardware)
            return found


IN_AWS = FunctionClusters(open_cluster)
LOCAL = FunctionClusters(open_local)
