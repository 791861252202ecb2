"""The platform that hosts install packages for, as Python's markers name it."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

#: The Pythons of Amazon Linux 2023 (https://docs.aws.amazon.com/linux/al2023/ug/python.html), the
#: only ones that hosts install.
HOST_PYTHONS = ("3.11", "3.12", "3.13", "3.14")

#: Processor architecture: EC2's name -> the name in Linux and so in Python's markers.
MACHINES = {"x86_64": "x86_64", "arm64": "aarch64"}


def host_markers(architecture: str) -> dict[str, str]:
    """Return the hosts' markers that differ from the client's, which may run on macOS."""
    return {
        "os_name": "posix",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": MACHINES[architecture],
    }


def python_version() -> str:
    """Return the client's Python, as ``major.minor``."""
    major, minor, _ = platform.python_version_tuple()
    return f"{major}.{minor}"


def applies(requirement: Requirement, extras: Iterable[str], markers: Mapping[str, str]) -> bool:
    """Return whether a package's requirement applies with any of these extras, or without."""
    if requirement.marker is None:
        return True
    # An extra that the marker doesn't name has no effect.
    marker = canonicalize_name(str(requirement.marker))
    named = {extra for extra in map(canonicalize_name, extras) if extra in marker}
    return any(requirement.marker.evaluate({**markers, "extra": extra}) for extra in ("", *named))
