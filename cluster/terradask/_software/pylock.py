"""Select hosts' packages in a ``pylock.toml`` (https://packaging.python.org/specifications/pylock-toml)."""

from __future__ import annotations

import tomllib
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import quote, unquote

from packaging.markers import Environment, default_environment
from packaging.pylock import (
    Package,
    PackageArchive,
    PackageDirectory,
    PackageSdist,
    PackageVcs,
    PackageWheel,
    Pylock,
    PylockSelectError,
    PylockValidationError,
)
from packaging.tags import Tag, compatible_tags, cpython_tags

from terradask._software.hosts import (
    HOST_GLIBC,
    MACHINES,
    host_markers,
    manylinux_of_hosts,
    python_version,
)
from terradask._software.indexes.indexes import is_index
from terradask._software.refused import file_refused


@dataclass(frozen=True)
class DirectPackage:
    """A package from a URL, folder or repository, as a lock file or a requirement names it."""

    name: str
    kind: Literal["folder", "archive", "repository"]
    #: The URL for installers, with the commit of a repository.
    url: str
    #: The SHA-256 that an archive must have.
    sha256: str | None = None
    #: The version of a wheel from a page of links or a folder.
    version: str | None = None


@dataclass(frozen=True)
class Selected:
    """The packages that hosts install."""

    #: Version by package name.
    packages: Mapping[str, str] = field(default_factory=dict)
    #: SHA-256 of each archive.
    hashes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: URL of the index without credentials, where known.
    indexes: Mapping[str, str] = field(default_factory=dict)
    #: Packages from folders, archive URLs, repositories and pages of links.
    direct: tuple[DirectPackage, ...] = ()
    #: Yanked package -> the index's reason.
    yanked: Mapping[str, str] = field(default_factory=dict)


def read_pylock(document: Mapping[str, Any]) -> Pylock:
    """Return a valid ``pylock.toml``. Raises `PylockValidationError`."""
    # packaging before 26.3 doesn't decode file names in URLs, such as torch-2.9.0%2Bcpu-….whl.
    for archive in _archives(document):
        url = archive.get("url")
        if isinstance(url, str) and not archive.keys() & {"name", "path"}:
            path = url.partition("#")[0].partition("?")[0]
            archive["name"] = unquote(path.rpartition("/")[2])
    return Pylock.from_dict(document)


def _archives(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the wheels and source archives of a file that nothing has checked yet."""
    packages = document.get("packages")
    for package in packages if isinstance(packages, list) else ():
        found = package if isinstance(package, dict) else {}
        wheels = found.get("wheels")
        for archive in [*(wheels if isinstance(wheels, list) else ()), found.get("sdist")]:
            if isinstance(archive, dict):
                yield archive


def select_for_hosts(
    text: str,
    path: Path,
    architecture: str,
    *,
    folder: Path,
    pages: Container[str] = (),
    of_pages: Container[str] = (),
) -> Selected:
    """Select the hosts' packages in a ``pylock.toml``, with paths relative to a folder. Wheels from
    `pages` (pages of links) and of the packages `of_pages` are direct packages.

    Sends no request. Raises `SoftwareUnusable`, also for packages without a wheel for hosts, and
    for another Python.
    """
    try:
        lock = read_pylock(tomllib.loads(text))
        chosen = list(
            lock.select(environment=_environment(architecture), tags=host_tags(architecture))
        )
    except (ValueError, PylockValidationError, PylockSelectError) as error:
        raise file_refused(path, str(error).splitlines()[0]) from error
    packages, hashes, indexes, direct, unsuited = {}, {}, {}, [], []
    for package, archive in chosen:
        name = str(package.name)
        if isinstance(archive, PackageVcs | PackageDirectory | PackageArchive):
            direct.append(_direct(package, archive, path, folder))
        elif isinstance(archive, PackageWheel) and package.version is not None:
            is_known = package.index is None or is_index(package.index, pages)
            if name in of_pages or not is_known:
                direct.append(_page_package(name, archive, package.version))
                continue
            packages[name] = str(package.version)
            hashes[name] = _hashes(package)
            if package.index is not None:
                indexes[name] = package.index
        elif isinstance(archive, PackageSdist):
            unsuited.append(name)
    unhashed = [name for name, found in hashes.items() if not found]
    if unsuited or unhashed:
        raise file_refused(path, _unsuited_reason(unsuited, unhashed, architecture))
    return Selected(packages, hashes, indexes, tuple(direct))


def _page_package(name: str, wheel: PackageWheel, version: object) -> DirectPackage:
    digest = wheel.hashes.get("sha256")
    return DirectPackage(name, "archive", str(wheel.url), digest, str(version))


def _environment(architecture: str) -> Environment:
    return cast("Environment", {**default_environment(), **host_markers(architecture)})


def host_tags(architecture: str) -> list[Tag]:
    """Return the wheel tags that hosts install, the best ones first."""
    platforms = [*manylinux_of_hosts(architecture), f"linux_{MACHINES[architecture]}"]
    python = tuple(map(int, python_version().split(".")))
    interpreter = f"cp{python[0]}{python[1]}"
    return [
        *cpython_tags(python, platforms=platforms, abis=[interpreter]),
        *compatible_tags(python, interpreter, platforms),
    ]


def _hashes(package: Package) -> tuple[str, ...]:
    wheels = package.wheels or ()
    return tuple(sorted(wheel.hashes["sha256"] for wheel in wheels if "sha256" in wheel.hashes))


def _unsuited_reason(unsuited: list[str], unhashed: list[str], architecture: str) -> str:
    parts = []
    if unsuited:
        parts.append(
            f"no wheel for hosts, with Linux on {architecture}, glibc {HOST_GLIBC[0]}."
            f"{HOST_GLIBC[1]} and Python {python_version()}, of {', '.join(unsuited)}"
        )
    if unhashed:
        parts.append(f"no SHA-256 of {', '.join(unhashed)}")
    return "; ".join(parts)


def _direct(
    package: Package,
    source: PackageVcs | PackageDirectory | PackageArchive,
    path: Path,
    folder: Path,
) -> DirectPackage:
    inside = f"#subdirectory={quote(source.subdirectory)}" if source.subdirectory else ""
    found: Any = source
    if package.directory is not None:
        return DirectPackage(
            str(package.name), "folder", (folder / found.path).resolve().as_uri() + inside
        )
    url = found.url or (folder / found.path).resolve().as_uri()
    if package.vcs is not None:
        if found.type != "git":
            raise file_refused(path, f"{package.name} is from {found.type}, not from git")
        return DirectPackage(
            str(package.name), "repository", f"git+{url}@{found.commit_id}{inside}"
        )
    return DirectPackage(str(package.name), "archive", url + inside, found.hashes.get("sha256"))
