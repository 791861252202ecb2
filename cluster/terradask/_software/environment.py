"""Read the running environment from the metadata of its packages."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from importlib.metadata import PackageMetadata
from pathlib import Path
from typing import cast

from packaging.markers import default_environment
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidName, canonicalize_name
from packaging.version import InvalidVersion, Version

from terradask._software.hosts import host_markers, newer_glibc, python_version
from terradask._software.local_wheels import build_obstacle
from terradask._software.package_origin import Origin, conda_origin, direct_origin, folder_origin
from terradask._software.scan import AddedPackage, Installed, Scan, installed_requirement, scan


def scan_environment(architecture: str, keep: Iterable[str], more: Iterable[str] = ()) -> Scan:
    """Classify every package of the running environment for hosts of a processor architecture.
    `more` are requirements of every host that the environment lacks.
    """
    installed = read_installed(importlib.metadata.distributions(), architecture)
    found = scan_installed(installed, architecture, keep)
    # Hosts' dashboard and `PipInstall` are distributed's.
    lacking = (AddedPackage(Requirement(each).name, each, ("distributed",)) for each in more)
    return replace(found, added=(*found.added, *lacking))


def scan_installed(installed: Sequence[Installed], architecture: str, keep: Iterable[str]) -> Scan:
    """Classify these packages of the running environment; hosts need those to `keep` anyway."""
    return scan(
        installed,
        python=python_version(),
        architecture=architecture,
        here=cast("dict[str, str]", default_environment()),
        hosts=host_markers(architecture),
        keep={canonicalize_name(Requirement(text).name) for text in keep},
    )


def read_installed(
    distributions: Iterable[importlib.metadata.Distribution], architecture: str
) -> list[Installed]:
    """Read packages, the first of each name, which hides the others from imports."""
    found: dict[str, Installed] = {}
    for distribution in distributions:
        fields = _fields(distribution)
        if fields is not None and (name := canonicalize_name(fields["Name"])) not in found:
            found[name] = _read(name, fields, distribution, architecture)
    return list(found.values())


def _fields(distribution: importlib.metadata.Distribution) -> PackageMetadata | None:
    """Return the metadata, since each access to `Distribution.metadata` parses it again. An
    interrupted installation leaves a folder without name or version.
    """
    try:
        fields = distribution.metadata
        # Each would warn, or raise, for a field that isn't there.
        if "Name" not in fields or "Version" not in fields:
            return None
        canonicalize_name(fields["Name"], validate=True)
    except (FileNotFoundError, KeyError, InvalidName):
        # importlib_metadata's finder raises for a missing file or field.
        return None
    return fields


def _requires(
    distribution: importlib.metadata.Distribution, fields: PackageMetadata
) -> Iterable[str]:
    if distribution.read_text("METADATA") is None:
        # An egg has its requirements in a separate file.
        return distribution.requires or ()
    return fields.get_all("Requires-Dist") or ()


def _read(
    name: str,
    fields: PackageMetadata,
    distribution: importlib.metadata.Distribution,
    architecture: str,
) -> Installed:
    version = fields["Version"]
    origin, built = _origin(distribution, architecture)
    try:
        Version(version)
    except InvalidVersion:
        # The version may contain any text, so it can't stand in a requirement.
        origin, built = Origin("unknown", "its version can't be read"), False
    newer = newer_glibc(distribution)
    doubt = None if newer is None else "its wheel needs glibc {}.{}".format(*newer)
    try:
        requires = tuple(map(installed_requirement, _requires(distribution, fields)))
    except InvalidRequirement as error:
        requires, doubt = (), f"its requirements can't be read: {str(error).splitlines()[0]}"
    return Installed(
        name, version, requires, tuple(fields.get_all("Provides-Extra") or ()), origin, doubt, built
    )


def with_folder_origins(
    installed: Iterable[Installed], folders: Mapping[str, Path], architecture: str
) -> list[Installed]:
    """Return the packages, with a folder as origin of those that only its archives have."""

    def with_folder_origin(package: Installed) -> Installed:
        distribution = importlib.metadata.distribution(package.name)
        origin, built = buildable(folder_origin(folders[package.name]), distribution, architecture)
        return replace(package, origin=origin, built=built)

    return [with_folder_origin(one) if one.name in folders else one for one in installed]


def _origin(
    distribution: importlib.metadata.Distribution, architecture: str
) -> tuple[Origin | None, bool]:
    origin = direct_origin(distribution)
    if origin is None:
        return conda_origin(distribution), False
    return buildable(origin, distribution, architecture)


def buildable(
    origin: Origin, distribution: importlib.metadata.Distribution, architecture: str
) -> tuple[Origin, bool]:
    """Return a package's origin, with an obstacle to building it; whether a wheel can be built."""
    if not origin.is_buildable:
        return origin, False
    obstacle = build_obstacle(distribution, architecture)
    if obstacle is None:
        return origin, True
    return Origin(origin.kind, f"{origin.description}; {obstacle}"), False


def install_advice(names: Iterable[str]) -> str:
    """Return advice for names that aren't installed. Similar installed names come first, since a
    misspelled name may be another author's package in an index.
    """
    known = {
        canonicalize_name(fields["Name"])
        for each in importlib.metadata.distributions()
        if (fields := _fields(each)) is not None
    }
    meant = [
        near for name in names for near in get_close_matches(canonicalize_name(name), known, n=1)
    ]
    install = f"pip install {' '.join(map(repr, names))}"
    return f"did you mean {', '.join(meant)}? Otherwise {install}" if meant else install
