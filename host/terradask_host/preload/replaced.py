"""Dask's own operations that are replaced on schedulers: the parameters that the replacements count
on, and those for versions.

distributed has no upper bound, so that clusters have the user's newest Dask: a scheduler checks
its shape instead.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class _Shape:
    """The table that Dask has an operation in, and the operation's parameters."""

    table: str
    parameters: frozenset[str]
    #: The replacement passes further parameters on.
    passes_more: bool = True


_SHAPES = {
    "register-worker": _Shape("handlers", frozenset({"comm", "name", "address", "extra"})),
    "register-client": _Shape("handlers", frozenset({"comm", "versions"})),
    "retire_workers": _Shape("handlers", frozenset({"names"})),
    "subscribe_worker_status": _Shape("handlers", frozenset({"comm"}), passes_more=False),
    "subscribe-topic": _Shape("stream_handlers", frozenset({"topic", "client"}), passes_more=False),
}


def changed_operations(scheduler: Any) -> list[str]:
    """Return a sentence for each operation of a new scheduler whose parameters aren't those that
    its replacement counts on.
    """
    found = []
    for name, shape in _SHAPES.items():
        handler = getattr(scheduler, shape.table).get(name)
        if handler is None:
            found.append(f"{name} is gone")
            continue
        there = _parameters(handler)
        missing = shape.parameters - there
        more = frozenset() if shape.passes_more else there - shape.parameters
        found += [f"{name} has no parameter {each}" for each in sorted(missing)]
        found += [f"{name} has the new parameter {each}" for each in sorted(more)]
    return found


def warn_of_changed_operations(scheduler: Any) -> None:
    """Print a warning with the version of distributed if its operations have changed. Raises
    `RuntimeError` if one is gone, since nothing then keeps strangers or pickles out.
    """
    import distributed  # of Dask's environment

    changed = changed_operations(scheduler)
    if not changed:
        return
    text = (
        f"distributed {distributed.__version__} has changed operations that terradask replaces: "
        f"{'; '.join(changed)}. Upgrade terradask, or install an older distributed in the client's "
        "environment"
    )
    if any(each.endswith(" is gone") for each in changed):
        raise RuntimeError(text)
    print(f"warning: {text}", file=sys.stderr)


def _parameters(handler: Any) -> frozenset[str]:
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(handler).parameters.values()
    return frozenset(each.name for each in parameters if each.kind in named)


# ---- versions: Dask warns of mismatches, and here not of expected ones ---------------------------


def expect_known_differences(scheduler: Any) -> None:
    """Remove expected differences from a scheduler's warnings to clients and workers.

    Hosts have the client's Python by its minor version, and the requested packages. Dask warns of
    another patch release, and of packages that only the client or only hosts have, such as Bokeh's
    NumPy.
    """
    from distributed.versions import get_versions

    register_client = scheduler.handlers["register-client"]
    register_worker = scheduler.handlers["register-worker"]

    async def client(comm: Any, *, versions: Any = None, **facts: Any) -> None:
        hosts = [get_versions(), *(worker.versions for worker in scheduler.workers.values())]
        await register_client(comm, versions=without_known(versions, hosts), **facts)

    async def worker(comm: Any, *, versions: Any = None, **facts: Any) -> None:
        await register_worker(comm, versions=with_patch_of(versions, get_versions()), **facts)

    scheduler.handlers["register-client"] = client
    scheduler.handlers["register-worker"] = worker


def without_known(client: Any, hosts: Iterable[Any]) -> Any:
    """Return a client's versions without packages that no host has, with a host's version of those
    that it lacks, and with the first host's Python patch release.
    """
    theirs = [_packages(versions) for versions in hosts]
    found = with_patch_of(client, {"packages": theirs[0]})
    if not _packages(found):
        return found
    kept = {}
    for name, version in _packages(found).items():
        there = next(filter(None, (packages.get(name) for packages in theirs)), None)
        kept[name] = (version or there) if there else None
    return {**found, "packages": kept}


def with_patch_of(own: Any, other: Any) -> Any:
    """Return versions with the other side's Python patch release, if the minor version matches."""
    packages, others = _packages(own), _packages(other)
    if not _minor(packages) or _minor(packages) != _minor(others):
        return own
    return {**own, "packages": {**packages, "python": others["python"]}}


def _packages(versions: Any) -> Mapping[str, Any]:
    found = versions.get("packages") if isinstance(versions, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _minor(packages: Mapping[str, Any]) -> list[str]:
    python = packages.get("python")
    return str(python).split(".")[:2] if python else []
