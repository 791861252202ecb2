"""Read a function's cluster arguments, name its cluster from them, and open the cluster."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Any, Literal

from distributed import Client, LocalCluster

from terradask._clusters.lifetime import Duration
from terradask._common.processes import user_name
from terradask._dask.arguments import ClusterArguments
from terradask._dask.cluster import Cluster
from terradask._dask.facade import check_known
from terradask._dask.request import Request, read_request
from terradask.errors import InvalidInput
from terradask_modules.secret_policy import principal_of

#: Short name of a function's argument -> the cluster's.
SHORT_NAMES = {
    "cpu": "worker_cpu",
    "memory": "worker_memory",
    "gpu": "worker_gpu",
    "gpu_type": "worker_gpu_type",
    "vm_type": "worker_vm_types",
    "disk_size": "worker_disk_size",
    "keepalive": "no_client_timeout",
}

_KNOWN = [each.name for each in fields(ClusterArguments) if each.name != "_"]

#: Arguments of `Cluster` that a function's cluster refuses -> advice.
_REFUSED = {
    "asynchronous": "await asyncio.to_thread(function, ...) inside an event loop",
    "attach": "leave it out: a cluster that runs is used",
    "create": "leave it out: a cluster that exists is used",
    "loop": "leave it out",
    "wait_for_workers": "leave it out: tasks wait for the workers that they need",
}


@dataclass(frozen=True)
class FunctionArguments(ClusterArguments):
    """The arguments of `terradask.function`: `OWN`, and those of `Cluster` but `_REFUSED`."""

    name: str | None = field(default=None, kw_only=True)
    _: KW_ONLY
    cpu: int | Sequence[int] | Literal["*"] | None = None
    memory: int | str | Sequence[int] | Sequence[str] | None = None
    gpu: int | bool | None = None
    gpu_type: str | None = None
    vm_type: Sequence[str] | str | None = None
    disk_size: int | None = None
    n_workers: int | Sequence[int] | None = None
    threads_per_worker: int | None = 1
    keepalive: Duration = "30 seconds"
    local: bool = False

    asynchronous: Literal[False] = False
    attach: None = None
    create: None = None
    loop: None = None
    wait_for_workers: None = None


#: The arguments that are not simply those of `Cluster`.
OWN = tuple(
    each for each in FunctionArguments.__annotations__ if each not in {"name", "_", *_REFUSED}
)
#: All that can be given.
ARGUMENTS = tuple(dict.fromkeys(each for each in (*OWN, *_KNOWN) if each not in _REFUSED))


@dataclass(frozen=True)
class Hardware:
    """A cluster for functions: its arguments, and the bounds of its scaling."""

    arguments: Mapping[str, Any]
    #: Fewest and most workers; most is None for as many as the cluster can have.
    bounds: tuple[int, int | None] | None = (0, None)
    given: Mapping[str, Any] = field(default_factory=dict)

    def name_for(self, caller_arn: str) -> str:
        """Return the given name, or one from the request, the IAM user or role, and local user."""
        if self.arguments.get("name") is not None:
            return str(self.arguments["name"])
        return f"function-{_digest([principal_of(caller_arn), _user(), *self._request()])}"

    def _request(self) -> Sequence[Any]:
        request = self._checked()
        structure = request.structure
        run = {name: request.given[name] for name in request.given if name not in structure}
        return structure, run, dict(request.workspace), self.bounds

    def _checked(self) -> Request:
        return read_request(ClusterArguments(**self.arguments))

    def __str__(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.given.items())


def read_hardware(
    given: Mapping[str, Any],
    *,
    n_workers: int | Sequence[int] | None,
    threads_per_worker: int | None,
) -> Hardware:
    """Read a function's arguments, without any call. Raises `InvalidInput`, `TypeError`."""
    arguments = _with_long_names(given)
    check_known("function", arguments, (*SHORT_NAMES, *_KNOWN))
    for name, advice in _REFUSED.items():
        if name in arguments:
            raise InvalidInput(
                f"A function's cluster takes no `{name}`.", given=arguments[name], advice=advice
            )
    if threads_per_worker is not None:
        options = {**(arguments.get("worker_options") or {}), "nthreads": threads_per_worker}
        arguments["worker_options"] = options
    bounds = _bounds(n_workers)
    # The first worker boots with the scheduler, not after it.
    arguments["n_workers"] = n_workers if bounds is None else max(bounds[0], 1)
    if bounds is not None and bounds[1] is not None:
        arguments["max_workers"] = max(arguments.get("max_workers") or 0, bounds[1], 1)
    arguments = {"shutdown_on_close": False, **arguments, "wait_for_workers": False}
    shown = {name: value for name, value in given.items() if value is not None}
    hardware = Hardware(arguments, bounds, shown)
    hardware._checked()
    return hardware


def _with_long_names(given: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in given.items():
        long = SHORT_NAMES.get(name, name)
        if value is None:
            continue
        if long in found:
            both = [short for short, each in SHORT_NAMES.items() if each == long]
            raise InvalidInput(
                f"`{both[0]}` is an alias of `{long}`.",
                given=f"{long}={found[long]!r} and {value!r}",
                allowed="one of them",
                advice=f"leave `{both[0]}` out",
            )
        found[long] = value
    return found


def _bounds(n_workers: int | Sequence[int] | None) -> tuple[int, int | None] | None:
    if n_workers is None:
        return 0, None
    if isinstance(n_workers, int):
        return None
    if len(n_workers) != 2 or not all(type(number) is int for number in n_workers):
        raise InvalidInput(
            "This is not a number of workers.",
            given=f"n_workers={n_workers!r}",
            allowed="a whole number, or [minimum, maximum]",
            advice="leave it out: the cluster then scales with the work, from none",
        )
    least, most = n_workers
    if not 0 <= least <= most or most < 1:
        raise InvalidInput(
            "A function's cluster can't have these bounds.",
            given=f"n_workers={list(n_workers)!r}",
            allowed="[minimum, maximum], with 0 <= minimum <= maximum and a maximum of at least 1",
            advice="give whole numbers, the smaller one first",
        )
    return least, most


def _user() -> str:
    if (name := user_name()) is not None:
        return name
    # A container may run as a number without a name.
    return str(os.getuid()) if hasattr(os, "getuid") else ""


def _digest(request: Any) -> str:
    text = json.dumps(request, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


# ---- the clusters that are open ------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Opened:
    """A cluster in AWS, or processes on this machine, and its client, not the process's default."""

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
