"""Tags of wheels: which ones hosts can install. What is for a newer glibc than theirs, they build
from its source, for which they have no compiler.
"""

from __future__ import annotations

import importlib.metadata
import platform
import re
from collections.abc import Iterable, Mapping

from terradask._software.hosts import MACHINES

#: Of Amazon Linux 2023:
#: https://docs.aws.amazon.com/linux/al2023/ug/compare-with-al2.html
HOST_GLIBC = (2, 34)

_OLDEST_GLIBC_MINOR = 5
#: Older names of manylinux tags, by the glibc that they mean (https://peps.python.org/pep-0600/).
_OLD_NAMES = {5: "manylinux1", 12: "manylinux2010", 17: "manylinux2014"}
_MANYLINUX = re.compile(r"manylinux_(\d+)_(\d+)_")


def manylinux_of_hosts(architecture: str) -> list[str]:
    """Return the manylinux platforms of wheels that hosts install, the newest glibc first."""
    minors = range(HOST_GLIBC[1], _OLDEST_GLIBC_MINOR - 1, -1)
    names = ((f"manylinux_2_{minor}", _OLD_NAMES.get(minor)) for minor in minors)
    return [f"{name}_{MACHINES[architecture]}" for both in names for name in both if name]


def wheel_tags(distribution: importlib.metadata.Distribution) -> list[str]:
    """Return the tags of the wheel that a package was installed from; none of others."""
    lines = (distribution.read_text("WHEEL") or "").splitlines()
    return [line.removeprefix("Tag:").strip() for line in lines if line.startswith("Tag:")]


def why_unsuited(tags: Iterable[str], architecture: str) -> str | None:
    """Return why hosts can't install a wheel with these tags."""
    platforms = _platforms(tags)
    suited = {"any", *manylinux_of_hosts(architecture)}
    if suited & platforms or (f"linux_{MACHINES[architecture]}" in platforms and _has_old_glibc()):
        return None
    return (
        f"its wheel is for another platform than the hosts' ({', '.join(sorted(platforms))}): "
        f"publish one for Linux on {architecture} and glibc {HOST_GLIBC[0]}.{HOST_GLIBC[1]}"
    )


def newer_glibc(distribution: importlib.metadata.Distribution) -> tuple[int, int] | None:
    """Return the glibc that an installed wheel needs, if hosts have an older one."""
    needed = [
        (int(found[1]), int(found[2])) if (found := _MANYLINUX.match(each)) else (0, 0)
        for each in _platforms(wheel_tags(distribution))
    ]
    oldest = min(needed, default=(0, 0))
    return oldest if oldest > HOST_GLIBC else None


def _has_old_glibc() -> bool:
    """Return whether what was compiled here, against this machine's glibc, suits hosts."""
    library, version = platform.libc_ver()
    return library == "glibc" and tuple(map(int, version.split(".")[:2])) <= HOST_GLIBC


def _platforms(tags: Iterable[str]) -> set[str]:
    return {each for tag in tags for each in tag.rpartition("-")[2].split(".")}


def describe_newer(needed: Mapping[str, tuple[int, int]]) -> str:
    """Return a warning about packages, each with the glibc that its wheel needs."""
    listed = ", ".join(f"{name} (glibc {a}.{b})" for name, (a, b) in sorted(needed.items()))
    return (
        f"hosts have glibc {HOST_GLIBC[0]}.{HOST_GLIBC[1]}, and the wheels installed here need a "
        f"newer one: {listed}. If the index has no other wheel of these versions, hosts fail to "
        "build them: install versions with older wheels here"
    )
