"""Read a function's cluster arguments, and derive the cluster's name from them."""

from __future__ import annotations

import getpass
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from terradask._dask.arguments import ClusterArguments
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
class Hardware:
    """A cluster for functions: its arguments, and the bounds of its scaling."""

    arguments: Mapping[str, Any]
    #: Fewest and most workers; most is None for as many as the cluster can have.
    bounds: tuple[int, int | None] | None = (0, None)
    given: Mapping[str, Any] = field(default_factory=dict)

    def name_for(self, caller_arn: str) -> str:
        """Return the given name, or one derived from the request, the caller's IAM user or role,
        and the user on this machine.
        """
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
    """Read a function's arguments, without any call.

    Raises `InvalidInput`, `TypeError`.
    """
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
    least, most = _two(n_workers)
    if not 0 <= least <= most or most < 1:
        raise InvalidInput(
            "A function's cluster can't have these bounds.",
            given=f"n_workers={list(n_workers)!r}",
            allowed="[minimum, maximum], with 0 <= minimum <= maximum and a maximum of at least 1",
            advice="give whole numbers, the smaller one first",
        )
    return least, most


def _two(n_workers: Sequence[int]) -> tuple[int, int]:
    if len(n_workers) == 2 and all(type(number) is int for number in n_workers):
        return n_workers[0], n_workers[1]
    raise InvalidInput(
        "This is not a number of workers.",
        given=f"n_workers={n_workers!r}",
        allowed="a whole number, or [minimum, maximum]",
        advice="leave it out: the cluster then scales with the work, from none",
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container may run as a number without a name.
        return str(os.getuid())


def _digest(request: Any) -> str:
    text = json.dumps(request, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
