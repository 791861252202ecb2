"""The platform that hosts install packages for, as Python's markers name it, and the wheels for it.

For a newer glibc, uv would build from source, but hosts have no compiler.
"""

from __future__ import annotations

import importlib.metadata
import platform
import re
from collections.abc import Iterable, Mapping

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

#: AWS (documented): Amazon Linux 2023 has Python 3.9 and 3.11 to 3.14.
#: https://docs.aws.amazon.com/linux/al2023/ug/python.html
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


# ---- wheels that hosts can install, by their tags ------------------------------------------------


#: AWS (documented): Amazon Linux 2023 has glibc 2.34.
#: https://docs.aws.amazon.com/linux/al2023/ug/compare-with-al2.html
HOST_GLIBC = (2, 34)

_OLDEST_GLIBC_MINOR = 5
#: Legacy manylinux tags and their glibc (https://peps.python.org/pep-0600/).
_OLD_NAMES = {5: "manylinux1", 12: "manylinux2010", 17: "manylinux2014"}
_MANYLINUX = re.compile(r"manylinux_(\d+)_(\d+)_")


def manylinux_of_hosts(architecture: str) -> list[str]:
    """Return the manylinux platforms that hosts support, the newest glibc first."""
    minors = range(HOST_GLIBC[1], _OLDEST_GLIBC_MINOR - 1, -1)
    names = ((f"manylinux_2_{minor}", _OLD_NAMES.get(minor)) for minor in minors)
    return [f"{name}_{MACHINES[architecture]}" for both in names for name in both if name]


def wheel_tags(distribution: importlib.metadata.Distribution) -> list[str]:
    """Return the tags of the wheel that a package was installed from; empty for other packages."""
    lines = (distribution.read_text("WHEEL") or "").splitlines()
    return [line.removeprefix("Tag:").strip() for line in lines if line.startswith("Tag:")]


def platform_mismatch(tags: Iterable[str], architecture: str) -> str | None:
    """Return why hosts can't install a wheel with these tags; None if they can."""
    platforms = _platforms(tags)
    suited = {"any", *manylinux_of_hosts(architecture)}
    if suited & platforms or (f"linux_{MACHINES[architecture]}" in platforms and _has_old_glibc()):
        return None
    return (
        f"its wheel is for another platform than the hosts' ({', '.join(sorted(platforms))}): "
        f"publish one for Linux on {architecture} and glibc {HOST_GLIBC[0]}.{HOST_GLIBC[1]}"
    )


def newer_glibc(distribution: importlib.metadata.Distribution) -> tuple[int, int] | None:
    """Return the glibc that an installed wheel needs, if the hosts' is older."""
    needed = [
        (int(found[1]), int(found[2])) if (found := _MANYLINUX.match(each)) else (0, 0)
        for each in _platforms(wheel_tags(distribution))
    ]
    oldest = min(needed, default=(0, 0))
    return oldest if oldest > HOST_GLIBC else None


def _has_old_glibc() -> bool:
    """Return whether code compiled on this machine, with its glibc, runs on hosts."""
    library, version = platform.libc_ver()
    return library == "glibc" and tuple(map(int, version.split(".")[:2])) <= HOST_GLIBC


def _platforms(tags: Iterable[str]) -> set[str]:
    return {each for tag in tags for each in tag.rpartition("-")[2].split(".")}


def describe_newer_glibc(needed: Mapping[str, tuple[int, int]]) -> str:
    """Return a warning about packages, with the glibc of each wheel."""
    listed = ", ".join(f"{name} (glibc {a}.{b})" for name, (a, b) in sorted(needed.items()))
    return (
        f"hosts have glibc {HOST_GLIBC[0]}.{HOST_GLIBC[1]}, and locally installed wheels need a "
        f"newer one: {listed}. If the index has no other wheel of these versions, hosts fail to "
        "build them: install versions with older wheels"
    )
