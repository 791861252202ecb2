"""Remove expected differences from Dask's warning of mismatched versions.

Hosts have the client's Python by its minor version, and the requested packages. Dask warns of
another patch release, and of packages that only the client or only hosts have, such as Bokeh's
NumPy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Versions = Mapping[str, Any]


def expect_known_differences(scheduler: Any) -> None:
    """Remove expected differences from a scheduler's warnings to clients and workers."""
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


def _packages(versions: Any) -> Versions:
    found = versions.get("packages") if isinstance(versions, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _minor(packages: Versions) -> list[str]:
    python = packages.get("python")
    return str(python).split(".")[:2] if python else []
