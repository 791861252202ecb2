"""The clusters that this process's functions use: one for each request, opened at its first use."""

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
    """A cluster in AWS, or processes of this machine, and a client of it, which is not the
    process's default client.
    """

    cluster: Cluster | LocalCluster
    client: Client

    @property
    def is_usable(self) -> bool:
        """Whether tasks may be sent to it."""
        ended = isinstance(self.cluster, Cluster) and self.cluster.ended is not None
        return not ended and self.client.status in ("running", "connecting")


def open_cluster(name: str, hardware: Hardware) -> Opened:
    """Attach to a function's cluster; start or make it if need be."""
    with ExitStack() as undo:
        # Attached to, it would run on as long as this process.
        cluster = undo.enter_context(Cluster(**{**hardware.arguments, "name": name}))
        if hardware.bounds is not None and cluster.origin != "attached":
            least, most = hardware.bounds
            cluster.adapt(minimum=least, maximum=most)
        opened = Opened(cluster, Client(cluster, set_as_default=False))
        undo.pop_all()
    return opened


def open_here(name: str, hardware: Hardware) -> Opened:
    """Start processes on this machine instead."""
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
    """Opens each cluster, by its name, once, and again after it has ended."""

    def __init__(self, opener: Callable[[str, Hardware], Opened]) -> None:
        self._opener = opener
        self._begin()

    def _begin(self) -> None:
        self._open: dict[str, Opened] = {}
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._process = os.getpid()

    def opened(self, name: str) -> Opened | None:
        """Return the open cluster of a name that can be used; None if there is none."""
        if self._process != os.getpid():
            # A forked child's are its parent's.
            self._begin()
        found = self._open.get(name)
        return found if found is not None and found.is_usable else None

    def get(self, name: str, hardware: Hardware) -> Opened:
        """Return the open cluster of a name, or open it; other threads wait for that."""
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
HERE = FunctionClusters(open_here)
