"""The running environment, read from the metadata of its packages."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable
from typing import cast

from packaging.markers import default_environment
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from terradask._software.hosts import host_markers, python_version
from terradask._software.package_origin import conda_origin, direct_origin
from terradask._software.scan import Installed, Scan, scan
from terradask._software.wheel_tags import newer_glibc


def scan_environment(architecture: str = "x86_64") -> Scan:
    """Judge every package of the running environment for hosts of this processor architecture."""
    return scan(
        read_installed(importlib.metadata.distributions()),
        python=python_version(),
        architecture=architecture,
        here=cast("dict[str, str]", default_environment()),
        hosts=host_markers(architecture),
    )


def read_installed(distributions: Iterable[importlib.metadata.Distribution]) -> list[Installed]:
    """Read packages, the first of each name: it hides the others from imports."""
    found: dict[str, Installed] = {}
    for distribution in distributions:
        name = _name(distribution)
        if name and (canonical := canonicalize_name(name)) not in found:
            found[canonical] = _read(canonical, distribution)
    return list(found.values())


def _name(distribution: importlib.metadata.Distribution) -> str | None:
    try:
        # An interrupted installation leaves folders without a name.
        return distribution.metadata["Name"]
    except FileNotFoundError:
        # The same folder, read by the finder of the importlib_metadata package.
        return None


def _read(name: str, distribution: importlib.metadata.Distribution) -> Installed:
    newer = newer_glibc(distribution)
    doubt = None if newer is None else "its wheel needs glibc {}.{}".format(*newer)
    try:
        requires = tuple(map(Requirement, distribution.requires or ()))
    except InvalidRequirement as error:
        requires, doubt = (), f"its requirements can't be read: {str(error).splitlines()[0]}"
    return Installed(
        name,
        distribution.metadata["Version"] or "",
        requires,
        tuple(distribution.metadata.get_all("Provides-Extra") or ()),
        direct_origin(distribution) or conda_origin(distribution),
        doubt,
    )
