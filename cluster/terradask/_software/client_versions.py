"""Lock hosts to the client's installed versions of Dask, `software` and their dependencies."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from terradask._software.archive_hashes import archive_hashes
from terradask._software.environment import buildable, install_advice
from terradask._software.hosts import (
    HOST_PYTHONS,
    applies,
    host_markers,
    newer_glibc,
    python_version,
)
from terradask._software.indexes.configured import Machine, is_remote_url
from terradask._software.indexes.folder_archives import (
    find_only_in_folders,
    find_only_on_pages,
    local_folders,
)
from terradask._software.indexes.indexes import Indexes, index_sources, link_pages, read_indexes
from terradask._software.local_wheels import build_direct, build_wheel
from terradask._software.lock import Hashes, SoftwareLock
from terradask._software.package_origin import came_from, conda_origin, direct_origin, folder_origin
from terradask._software.pylock import DirectPackage
from terradask._software.refused import origins_refused
from terradask._software.resolver import Resolver, name_of
from terradask._software.scan import installed_requirement
from terradask.errors import SoftwareUnusable
from terradask_modules.errors import InvalidInput

#: Packages of every host: Dask, distributed in a version without known vulnerabilities
#: (https://github.com/advisories/GHSA-c336-7962-wfj2), and cloudpickle in the client's version,
#: which serializes functions.
BASE = ("dask", "distributed>=2026.1.1", "cloudpickle")

#: More packages of every host: the dashboard needs Bokeh, and `PipInstall` needs pip. The client
#: may lack them; uv then resolves them for hosts.
ADDED = ("bokeh>=3.4", "pip>=24")

#: Packages that client and hosts need in the same version: they exchange functions and messages in
#: these packages' formats.
SAME = ("dask", "distributed", "cloudpickle")

#: Packages that are left out where hosts can't have the local version.
OPTIONAL = frozenset({"pip"})


def lock_software(
    software: Iterable[str] = (), *, architecture: str = "x86_64", lock_file: Path | None = None
) -> SoftwareLock:
    """Lock the hosts' environment to the locally installed versions.

    Raises `SoftwareUnusable`, `SetupError`, `InvalidInput`.
    """
    python = python_for_hosts()
    machine = Machine.here(os.environ)
    indexes = read_indexes(os.environ, machine)
    named = [_parse(text) for text in software]
    requirements = [*map(Requirement, base()), *named]
    found = _installed_closure(requirements, host_markers(architecture))
    of_uv = indexes.environ(os.environ)
    sources = index_sources(indexes, machine, host_markers(architecture))
    folders: Mapping[str, Path] = {}
    of_pages: Sequence[DirectPackage] = ()
    if lock_file is None and named:
        # The names of Dask and of its dependencies belong to the public index.
        of_base = _installed_closure([*map(Requirement, base())], host_markers(architecture))
        others = {name: one.version for name, (one, _) in found.items() if name not in of_base}
        resolver = Resolver(architecture, of_uv, sources=sources)
        folders = find_only_in_folders(others, local_folders(os.environ, machine), resolver)
        if any(is_remote_url(page) for page in link_pages(os.environ, machine)):
            of_index = {name: version for name, version in others.items() if name not in folders}
            of_pages = find_only_on_pages(of_index, resolver)
            for one in of_pages:
                del found[one.name]
    local = _packages_to_build(found, architecture, folders, hashed=lock_file is not None)
    wheels = [
        *(build_wheel(found.pop(name)[0], architecture, of_uv) for name in local),
        *(build_direct(each, architecture, of_uv) for each in of_pages),
    ]
    packages = {name: distribution.version for name, (distribution, _) in found.items()}
    hashes: Hashes = {}
    if lock_file is not None:
        hashes = _hashes(lock_file, packages, {canonicalize_name(each.name) for each in named})
    glibc = {name: newer_glibc(distribution) for name, (distribution, _) in found.items()}
    return SoftwareLock(
        python,
        packages,
        hashes,
        {name: needed for name, needed in glibc.items() if needed is not None},
        wheels=wheels,
        **index_fields(
            indexes,
            {
                name: (sources[name].option,) if name in sources else indexes.options()
                for name in packages
            },
        ),
    )


def index_fields(indexes: Indexes, options: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the fields of a `SoftwareLock` about indexes."""
    named = {option for each in options.values() for option in each}
    return {
        "indexes": {name: each for name, each in options.items() if each},
        "loopback": [i.url for i in indexes.every if i.is_loopback and i.option in named],
        "credentials": indexes.credentials(named),
    }


def python_for_hosts() -> str:
    """Return this process's Python, as ``major.minor``. Raises `SoftwareUnusable`."""
    python = python_version()
    if python not in HOST_PYTHONS:
        raise SoftwareUnusable(
            f"Hosts have no Python {python}, and they need the client's version.",
            given=python,
            allowed=f"Python {', '.join(HOST_PYTHONS)}, which Amazon Linux 2023 has",
            advice="use an environment with one of these versions",
        )
    return python


def client_mismatch(versions: Mapping[str, str]) -> str | None:
    """Return why hosts with these versions can't work with this client; None if they can."""
    here = {name: importlib.metadata.version(name) for name in SAME}
    differing = [
        f"it has {name} {versions[name]}" if name in versions else f"it lacks {name}"
        for name in SAME
        if name not in versions or Version(versions[name]) != Version(here[name])
    ]
    if not differing:
        return None
    wanted = ", ".join(f"{name} {version}" for name, version in here.items())
    return f"{', '.join(differing)}; the client has {wanted}"


def base() -> list[str]:
    """Return the requirements of every host that this environment meets, or must meet."""
    here = [name for name in map(name_of, ADDED) if _installed(name) is not None]
    return [*BASE, *(n for n in here if n not in OPTIONAL or _is_from_index(_installed(n)))]


def added() -> list[str]:
    """Return the requirements of every host that this environment lacks, and needn't have."""
    return [each for each in ADDED if _installed(name_of(each)) is None]


def _is_from_index(distribution: importlib.metadata.Distribution | None) -> bool:
    return distribution is not None and not (
        direct_origin(distribution) or conda_origin(distribution)
    )


def _hashes(lock_file: Path, packages: dict[str, str], named: Container[str]) -> Hashes:
    """Return packages' hashes, without optional ones that the file lacks, such as pip."""
    for name in OPTIONAL & packages.keys():
        try:
            archive_hashes(lock_file, {name: packages[name]})
        except SoftwareUnusable:
            if name not in named:
                del packages[name]
    return archive_hashes(lock_file, packages)


def _installed_closure(
    requirements: Sequence[Requirement], markers: Mapping[str, str]
) -> dict[str, tuple[importlib.metadata.Distribution, str | None]]:
    """Return installed packages and their dependencies by name, each with its dependent or None."""
    for requirement in requirements:
        _check(requirement)
    waiting: list[tuple[Requirement, str | None]] = [(each, None) for each in requirements]
    found: dict[str, tuple[importlib.metadata.Distribution, str | None]] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        requirement, needed_by = waiting.pop()
        name = canonicalize_name(requirement.name)
        if (name, frozenset(requirement.extras)) in seen:
            continue
        seen.add((name, frozenset(requirement.extras)))
        distribution = _check(requirement)
        found.setdefault(name, (distribution, needed_by))
        needed = map(installed_requirement, distribution.requires or ())
        waiting.extend((r, name) for r in needed if applies(r, requirement.extras, markers))
    return found


def _packages_to_build(
    found: Mapping[str, tuple[importlib.metadata.Distribution, str | None]],
    architecture: str,
    folders: Mapping[str, Path],
    *,
    hashed: bool,
) -> list[str]:
    """Return the packages to build locally: the hosts' index may have another author's package of
    the name. Raises `SoftwareUnusable` for packages that can't be built.
    """
    local, origins = [], {}
    for name, (distribution, needed_by) in sorted(found.items()):
        # Hashes identify the archives of a package from conda. A package from a folder or a
        # repository would still differ between client and hosts.
        origin = direct_origin(distribution) or (None if hashed else conda_origin(distribution))
        if origin is None and name in folders:
            origin = folder_origin(folders[name])
        if origin is None:
            continue
        origin, is_built = (
            (origin, False) if hashed else buildable(origin, distribution, architecture)
        )
        if is_built:
            local.append(name)
            continue
        needed = "" if needed_by is None else f", needed by {needed_by}"
        origins[name] = f"{distribution.version}, {origin.description}{needed}"
    if origins:
        raise origins_refused(origins)
    return local


def _parse(text: str) -> Requirement:
    try:
        return Requirement(text)
    except InvalidRequirement as error:
        raise InvalidInput(
            "An entry of `software` is not a requirement.",
            given=text,
            allowed="a name with an optional version, such as 'pandas==3.1.1' or 's3fs'",
            advice="correct the entry",
        ) from error


def _installed(name: str) -> importlib.metadata.Distribution | None:
    try:
        return importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _check(requirement: Requirement) -> importlib.metadata.Distribution:
    distribution = _installed(requirement.name)
    if (
        distribution is None
        or not requirement.specifier.contains(distribution.version, prereleases=True)
        or (requirement.url is not None and not came_from(distribution, requirement.url))
    ):
        raise _missing(requirement, distribution)
    return distribution


def _missing(
    requirement: Requirement, found: importlib.metadata.Distribution | None
) -> SoftwareUnusable:
    install = f"pip install '{requirement}'" if found else install_advice([requirement.name])
    return SoftwareUnusable(
        f"The hosts need {requirement}, which differs from the client's environment.",
        given=f"{requirement.name} {found.version}, {_origin(found)}"
        if found
        else f"{requirement.name} is not installed",
        allowed=(
            "packages that are installed where the cluster is made, so that client and hosts run "
            "the same versions"
        ),
        advice=f"{install}, or leave it out of `software`",
    )


def _origin(found: importlib.metadata.Distribution) -> str:
    origin = direct_origin(found) or conda_origin(found)
    return "from a package index" if origin is None else origin.description
