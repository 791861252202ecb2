"""The hosts' packages by `package_sync`: those of the running environment, resolved for hosts."""

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
from terradask._software.client_versions import base, index_fields, lock_software, python_for_hosts
from terradask._software.environment import (
    how_to_install,
    of_folders,
    read_installed,
    scan_installed,
)
from terradask._software.hosts import host_markers, python_version
from terradask._software.indexes.configured import Machine
from terradask._software.indexes.folder_archives import folders_here, only_in_folders
from terradask._software.indexes.indexes import index_sources, read_indexes
from terradask._software.local_modules import build_modules
from terradask._software.local_wheels import build_direct, build_wheel
from terradask._software.lock import SoftwareLock
from terradask._software.lock_from_file import lock_file_packages
from terradask._software.named_environments import NamedEnvironments
from terradask._software.resolver import Resolver
from terradask._software.scan import DEPLOYS, OWN, needed_by_only, with_needs
from terradask._software.software_file import Software
from terradask._software.sync import PackageSync, Sync
from terradask.errors import InvalidInput, SoftwareUnusable

if TYPE_CHECKING:
    from terradask_stacks.settings.software import SoftwareSettings

#: Packages whose versions in an image have to be those of here.
IN_IMAGE = ("dask", "distributed")

#: How many names of a kind a line has.
_SHOWN = 10

#: What was asked for within `locked_once`, with the result; None outside.
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
    """Lock the hosts' environment to that of this process, to a file, to a named environment of the
    workspace, or to Dask and what `software` names; with `jupyter`, it has a notebook server.

    Within `locked_once`, the same request has the same result. Raises `SoftwareUnusable`,
    `InvalidInput` where a notebook server is missing, and as `lock_software`,
    `lock_file_packages`, `NamedEnvironments.lock` and `lock_environment` do.
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
    elif isinstance(software, str):
        assert named is not None
        lock = named.lock(software, architecture, os.environ)
    elif isinstance(software, Path):
        lock = lock_file_packages(software, architecture, os.environ)
    else:
        lock = lock_software(software, architecture=architecture, lock_file=lock_file)
    if jupyter:
        check_jupyterlab(lock, software, sync)
    if sync.local_modules:
        lock = replace(lock, wheels=(*lock.wheels, build_modules(Path.cwd(), lock.versions)))
    if known is not None:
        known.append((asked, lock))
    return lock


@contextmanager
def locked_once() -> Iterator[None]:
    """Let the check before a cluster is made and its start share what they resolve and build."""
    token = _known.set([])
    try:
        yield
    finally:
        _known.reset(token)


def versions_in_image() -> SoftwareLock:
    """Return what a container image has to have: this process's Python and Dask."""
    same = {name: importlib.metadata.version(name) for name in IN_IMAGE}
    return SoftwareLock(python_version(), same)


def sync_of(settings: SoftwareSettings, environ: Mapping[str, str]) -> PackageSync:
    """Return which packages of this environment the hosts of a cluster get.

    Those of an embedded AWS run in this environment: they get none unless the settings name some.
    """
    if settings.package_sync is None and is_loopback_endpoint(environ):
        return PackageSync(False, local_modules=settings.local_modules)
    return PackageSync.of(settings)


def describe_packages(lock: SoftwareLock) -> str:
    """Return what hosts get and what stays here, in a line."""
    built = _few([wheel.name for wheel in lock.wheels])
    by_tools = [name for name, why in lock.dropped.items() if why == DEPLOYS]
    by_platform = [name for name in lock.dropped if name not in by_tools]
    parts = [
        f"hosts get {len(lock.versions)} packages",
        built and f"built here: {built}",
        by_tools and f"staying here, as only terradask needs them: {_few(by_tools)}",
        by_platform and f"staying here, as only this platform needs them: {_few(by_platform)}",
    ]
    return "; ".join(part for part in parts if part)


def _few(names: Sequence[str]) -> str:
    return some(sorted(names), _SHOWN)


def lock_environment(
    sync: PackageSync, architecture: str, environ: Mapping[str, str]
) -> SoftwareLock:
    """Resolve this environment's packages for hosts, with uv, and build those from no index.

    Raises `SoftwareUnusable`,
    `SoftwareNotResolved`, `SetupError`.
    """
    python = python_for_hosts()
    installed = read_installed(importlib.metadata.distributions(), architecture)
    markers = host_markers(architecture)
    critical = with_needs(installed, base(), markers)
    named = () if isinstance(sync.packages, bool) else sync.packages
    _check_installed(named, {package.name for package in installed})
    only = with_needs(installed, named, markers) if named else None
    machine = Machine.here(environ)
    indexes = read_indexes(environ, machine)
    of_uv = indexes.environ(environ)
    resolver = Resolver(architecture, of_uv, sources=index_sources(indexes, machine, markers))
    folders = only_in_folders(
        # The names of Dask and of what it needs are the public index's own.
        {p.name: p.version for p in installed if p.origin is None and p.name not in critical},
        folders_here(environ, machine),
        resolver,
    )
    installed = of_folders(installed, folders, architecture)
    found = Sync(
        scanned := scan_installed(installed, architecture, [*base(), *named]),
        resolver,
        critical,
        sync,
        only,
        needed_by_only(OWN, installed, markers),
    )()
    return SoftwareLock(
        python,
        found.packages,
        found.hashes,
        missing=found.missing,
        changed=found.changed,
        yanked=found.yanked,
        # With names, much more stays here, and that is what was asked for.
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
    """Return a warning about packages that hosts don't have as they are here; empty if none."""
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
    """Return a warning about indexes that hosts can't ask."""
    return (
        f"hosts can't reach {', '.join(urls)}, an index on this machine: configure one that they "
        "reach, or let their image name it (terradask software indexes)"
    )


def _check_installed(names: Iterable[str], installed: set[str]) -> None:
    absent = sorted(name for name in names if canonicalize_name(name) not in installed)
    if absent:
        raise SoftwareUnusable(
            "`package_sync` names packages that are not installed here.",
            given=", ".join(absent),
            allowed="packages that are installed where the cluster is made",
            advice=f"{how_to_install(absent)}, or leave them out",
        )


# ---- what a notebook server needs among the hosts' packages --------------------------------------


#: It brings the server, and a kernel for Python.
JUPYTERLAB = "jupyterlab"


def with_jupyterlab(software: Software, sync: PackageSync) -> tuple[Software, PackageSync]:
    """Return what hosts get, with JupyterLab, if names or nothing but Dask were asked for. All of
    this environment, a file and a named environment have it, or not.
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
    try:
        importlib.metadata.distribution(JUPYTERLAB)
    except importlib.metadata.PackageNotFoundError:
        raise _missing("this environment") from None
    return [*names, JUPYTERLAB]


def _missing(where: str) -> InvalidInput:
    return InvalidInput(
        "The cluster is to run a notebook server, and its hosts get no JupyterLab.",
        given=f"jupyter=True; {where} has no {JUPYTERLAB} for hosts",
        allowed=f"packages with {JUPYTERLAB}",
        advice=(
            f"pip install {JUPYTERLAB} here"
            if where == "this environment"
            else f"add {JUPYTERLAB} there"
        )
        + ", or leave jupyter out",
    )
