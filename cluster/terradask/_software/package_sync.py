"""Lock hosts to the packages of the running environment (`package_sync`), resolved for hosts."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from terradask._aws.endpoints import is_loopback_endpoint
from terradask._common.naming import some
from terradask._software.additions import add_to_list, without_hashes
from terradask._software.client_versions import (
    added,
    base,
    index_fields,
    lock_software,
    python_for_hosts,
)
from terradask._software.environment import (
    install_advice,
    read_installed,
    scan_installed,
    with_folder_origins,
)
from terradask._software.hosts import host_markers, python_version
from terradask._software.indexes.configured import Machine
from terradask._software.indexes.folder_archives import find_only_in_folders, local_folders
from terradask._software.indexes.indexes import index_sources, read_indexes
from terradask._software.local_modules import build_modules
from terradask._software.local_wheels import build_direct, build_wheel
from terradask._software.lock import SoftwareLock
from terradask._software.lock_from_file import lock_file_packages
from terradask._software.named_environments import NamedEnvironments
from terradask._software.resolver import Resolver, name_of
from terradask._software.scan import (
    ONLY_DEPLOYMENT,
    OWN,
    dependency_closure,
    exclusive_dependencies,
)
from terradask._software.software_file import Software
from terradask._software.sync import PackageSync, Sync
from terradask.errors import InvalidInput, SoftwareUnusable
from terradask_modules.frameworks import installed_version

if TYPE_CHECKING:
    from terradask_stacks.settings.software import SoftwareSettings

#: Packages of an image that must have the client's versions.
IN_IMAGE = ("dask", "distributed")

#: The number of names of a kind in a message.
_SHOWN = 10

#: Requests and results within `locked_once`; None outside.
_known: ContextVar[list[tuple[object, SoftwareLock]] | None] = ContextVar("known", default=None)


def lock_for_hosts(
    software: Software,
    sync: PackageSync,
    *,
    architecture: str,
    lock_file: Path | None,
    named: NamedEnvironments | None = None,
    jupyter: bool = False,
) -> SoftwareLock:
    """Lock the hosts' environment to this process's, to a file, to a named environment of the
    workspace, or to Dask and `software`; with `jupyter`, with a notebook server.

    Within `locked_once`, equal requests share a result. Raises `SoftwareUnusable`,
    `InvalidInput` for a missing notebook server, and the errors of `lock_software`,
    `lock_file_packages`, `NamedEnvironments.lock` and `lock_environment`.
    """
    if jupyter:
        software, sync = with_jupyterlab(software, sync)
    asked = (software, sync, architecture, lock_file)
    known = _known.get()
    for other, lock in known or ():
        if other == asked:
            return lock
    if sync:
        lock = lock_environment(sync, architecture, os.environ)
        more = [each for each in added() if name_of(each) not in sync.ignore]
        lock = add_to_list(lock, more, architecture, os.environ)
    elif isinstance(software, str):
        assert named is not None
        lock = named.lock(software, architecture, os.environ)
    elif isinstance(software, Path):
        lock = lock_file_packages(software, architecture, os.environ)
    else:
        lock = lock_software(software, architecture=architecture, lock_file=lock_file)
        if lock_file is not None:
            lock = without_hashes(lock, added(), lock_file)
        elif software or not is_loopback_endpoint(os.environ):
            # Hosts of an embedded AWS that get Dask alone run in its environment.
            lock = add_to_list(lock, added(), architecture, os.environ)
    if jupyter:
        check_jupyterlab(lock, software, sync)
    if sync.local_modules:
        lock = replace(lock, wheels=(*lock.wheels, build_modules(Path.cwd(), lock.versions)))
    if known is not None:
        known.append((asked, lock))
    return lock


@contextmanager
def locked_once() -> Iterator[None]:
    """Let the check before a cluster is made and its start share one resolution and build."""
    token = _known.set([])
    try:
        yield
    finally:
        _known.reset(token)


def versions_in_image() -> SoftwareLock:
    """Return the packages that a container image must have: this process's Python and Dask."""
    same = {name: importlib.metadata.version(name) for name in IN_IMAGE}
    return SoftwareLock(python_version(), same)


def package_sync_settings(settings: SoftwareSettings, environ: Mapping[str, str]) -> PackageSync:
    """Return the packages of this environment that a cluster's hosts get.

    Hosts of an embedded AWS run in this environment, so they get none unless the settings name
    some.
    """
    if settings.package_sync is None and is_loopback_endpoint(environ):
        return PackageSync(False, local_modules=settings.local_modules)
    return PackageSync.of(settings)


def describe_packages(lock: SoftwareLock) -> str:
    """Return a one-line summary of the packages that hosts get and don't get."""
    built = _shortened([wheel.name for wheel in lock.wheels])
    by_tools = [name for name, why in lock.dropped.items() if why == ONLY_DEPLOYMENT]
    by_platform = [name for name in lock.dropped if name not in by_tools]
    parts = [
        f"hosts get {len(lock.versions)} packages",
        built and f"built locally: {built}",
        by_tools and f"only local, as only terradask needs them: {_shortened(by_tools)}",
        by_platform and f"only local, as only this platform needs them: {_shortened(by_platform)}",
    ]
    return "; ".join(part for part in parts if part)


def _shortened(names: Sequence[str]) -> str:
    return some(sorted(names), _SHOWN)


def lock_environment(
    sync: PackageSync, architecture: str, environ: Mapping[str, str]
) -> SoftwareLock:
    """Resolve this environment's packages for hosts with uv, and build those from no index.

    Raises `SoftwareUnusable`, `SoftwareNotResolved`, `SetupError`.
    """
    python = python_for_hosts()
    installed = read_installed(importlib.metadata.distributions(), architecture)
    markers = host_markers(architecture)
    critical = dependency_closure(installed, base(), markers)
    named = () if isinstance(sync.packages, bool) else sync.packages
    _check_installed(named, {package.name for package in installed})
    only = dependency_closure(installed, named, markers) if named else None
    machine = Machine.here(environ)
    indexes = read_indexes(environ, machine)
    of_uv = indexes.environ(environ)
    resolver = Resolver(architecture, of_uv, sources=index_sources(indexes, machine, markers))
    folders = find_only_in_folders(
        # The names of Dask and of its dependencies belong to the public index.
        {p.name: p.version for p in installed if p.origin is None and p.name not in critical},
        local_folders(environ, machine),
        resolver,
    )
    installed = with_folder_origins(installed, folders, architecture)
    found = Sync(
        scanned := scan_installed(installed, architecture, [*base(), *named]),
        resolver,
        critical,
        sync,
        only,
        exclusive_dependencies(OWN, installed, markers),
    )()
    return SoftwareLock(
        python,
        found.packages,
        found.hashes,
        missing=found.missing,
        changed=found.changed,
        yanked=found.yanked,
        # Named packages leave most others out, as requested.
        dropped={}
        if named
        else {p.name: p.why or "" for p in scanned.packages if p.verdict == "dropped"},
        wheels=(
            *(
                build_wheel(importlib.metadata.distribution(name), architecture, of_uv)
                for name in found.built
            ),
            *(build_direct(each, architecture, of_uv) for each in found.direct),
        ),
        **index_fields(
            indexes, {name: indexes.options(url) for name, url in found.indexes.items()}
        ),
    )


def describe_differences(lock: SoftwareLock) -> str:
    """Return a warning about packages that are missing or differ on hosts; empty if none."""
    parts = [f"{name} ({why})" for name, why in sorted(lock.missing.items())]
    changed = [
        f"{name} {there} instead of {here}" for name, (here, there) in sorted(lock.changed.items())
    ]
    withdrawn = [
        f"hosts get {name} {lock.packages[name]}, which its index has yanked {why}".rstrip()
        for name, why in sorted(lock.yanked.items())
    ]
    missing = [f"hosts don't get {', '.join(parts)}"] if parts else []
    others = [f"hosts get {', '.join(changed)}"] if changed else []
    return "; ".join(missing + others + withdrawn)


def describe_loopback(urls: Iterable[str]) -> str:
    """Return a warning about indexes that hosts can't reach."""
    return (
        f"hosts can't reach {', '.join(urls)}, an index on this machine: configure one that they "
        "can reach, or let their image name it (terradask software indexes)"
    )


def _check_installed(names: Iterable[str], installed: set[str]) -> None:
    absent = sorted(name for name in names if canonicalize_name(name) not in installed)
    if absent:
        raise SoftwareUnusable(
            "`package_sync` names packages that are not installed.",
            given=", ".join(absent),
            allowed="packages that are installed where the cluster is made",
            advice=f"{install_advice(absent)}, or leave them out",
        )


# ---- the notebook server among the hosts' packages -----------------------------------------------


#: JupyterLab depends on the server and a kernel for Python.
JUPYTERLAB = "jupyterlab"


def with_jupyterlab(software: Software, sync: PackageSync) -> tuple[Software, PackageSync]:
    """Add JupyterLab to a selection of packages, or to Dask alone. An entire environment, a file
    and a named environment stay unchanged.
    """
    if sync.packages is True or (not sync and isinstance(software, str | Path)):
        return software, sync
    if sync:
        return software, replace(sync, packages=_added(sync.packages))
    return _added(software), sync


def check_jupyterlab(lock: SoftwareLock, software: Software, sync: PackageSync) -> None:
    """Check that hosts get JupyterLab. Raises `InvalidInput`."""
    if JUPYTERLAB in lock.versions:
        return
    raise _missing(
        "this environment" if sync or not isinstance(software, str | Path) else str(software)
    )


def _added(names: object) -> list[str]:
    assert isinstance(names, list | tuple)
    has = {canonicalize_name(Requirement(name).name) for name in names}
    if JUPYTERLAB in has:
        return list(names)
    if installed_version(JUPYTERLAB) is None:
        raise _missing("this environment")
    return [*names, JUPYTERLAB]


def _missing(where: str) -> InvalidInput:
    return InvalidInput(
        "The cluster is to run a notebook server, but its hosts get no JupyterLab.",
        given=f"jupyter=True; {where} has no {JUPYTERLAB} for hosts",
        allowed=f"packages with {JUPYTERLAB}",
        advice=(
            f"pip install {JUPYTERLAB}"
            if where == "this environment"
            else f"add {JUPYTERLAB} there"
        )
        + ", or leave jupyter out",
    )
