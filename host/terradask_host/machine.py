"""The machine's size: what its processors and its memory are to this process, limits of its control
group included.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

#: Where the kernel mounts control groups, version 2:
#: https://docs.kernel.org/admin-guide/cgroup-v2.html
CGROUPS = Path("/sys/fs/cgroup")


def cpu_count() -> int:
    """Return the processors that this process may use: those it may run on, and no more than its
    control groups' quota.
    """
    there = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    quota = cpu_quota(CGROUPS, own_cgroup())
    return there if quota is None else max(min(there, math.ceil(quota)), 1)


def memory_bytes() -> int:
    """Return the memory that this process may use: the machine's, and no more than its control
    groups' limit.
    """
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = memory_limit_bytes(CGROUPS, own_cgroup())
    return there if limit is None else min(there, limit)


def own_cgroup(listing: Path = Path("/proc/self/cgroup")) -> str:
    """Return this process's control group, ``/`` where it is unknown."""
    try:
        lines = listing.read_text().splitlines()
    except OSError:
        return "/"
    return next((line.removeprefix("0::") for line in lines if line.startswith("0::")), "/")


def memory_limit_bytes(root: Path, group: str) -> int | None:
    """Return the lowest ``memory.max`` of a control group and those around it; None where none has
    any.

    `root` is where control groups are mounted, `group` the path below it, as ``/proc/self/cgroup``
    has it.
    """
    limits = [int(words[0]) for words in _settings(root, group, "memory.max") if words[0].isdigit()]
    return min((limit for limit in limits if limit > 0), default=None)


def cpu_quota(root: Path, group: str) -> float | None:
    """Return the lowest ``cpu.max`` of a control group and those around it, in processors; None
    where none has any.
    """
    pairs = [
        words
        for words in _settings(root, group, "cpu.max")
        if len(words) == 2 and all(word.isdigit() for word in words)
    ]
    return min(
        (int(quota) / int(period) for quota, period in pairs if int(quota) > 0 and int(period) > 0),
        default=None,
    )


def _settings(root: Path, group: str, name: str) -> Iterator[list[str]]:
    """Yield the words of a setting in a group and in each around it; those that have none are left
    out.
    """
    path = root / group.lstrip("/")
    for folder in (path, *path.parents):
        if not folder.is_relative_to(root):
            return
        try:
            words = (folder / name).read_text().split()
        except OSError:
            continue
        if words:
            yield words
