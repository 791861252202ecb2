"""Wheels that were installed here and that hosts can't install: for a newer glibc than theirs.

Hosts then build the package from its source, for which they have no compiler.
"""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Mapping

#: Of Amazon Linux 2023:
#: https://docs.aws.amazon.com/linux/al2023/ug/compare-with-al2.html
HOST_GLIBC = (2, 34)

_TAG = re.compile(r"^Tag: \S+-(\S+)$", re.MULTILINE)
_MANYLINUX = re.compile(r"manylinux_(\d+)_(\d+)_")


def newer_glibc(distribution: importlib.metadata.Distribution) -> tuple[int, int] | None:
    """Return the glibc that an installed wheel needs, if hosts have an older one.

    Tags are those of https://peps.python.org/pep-0600/.
    """
    platforms = [
        each
        for tag in _TAG.findall(distribution.read_text("WHEEL") or "")
        for each in tag.split(".")
    ]
    needed = [
        (int(found[1]), int(found[2])) if (found := _MANYLINUX.match(each)) else (0, 0)
        for each in platforms
    ]
    oldest = min(needed, default=(0, 0))
    return oldest if oldest > HOST_GLIBC else None


def describe_newer(needed: Mapping[str, tuple[int, int]]) -> str:
    """Return a warning about packages, each with the glibc that its wheel needs."""
    listed = ", ".join(f"{name} (glibc {a}.{b})" for name, (a, b) in sorted(needed.items()))
    return (
        f"hosts have glibc {HOST_GLIBC[0]}.{HOST_GLIBC[1]}, and the wheels installed here need a "
        f"newer one: {listed}. If the index has no other wheel of these versions, hosts fail to "
        "build them: install versions with older wheels here"
    )
