"""The machine's size: processors and memory for this process, within its control group's limits,
and NVIDIA GPUs on the PCI bus and in the driver.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from terradask_host.errors import GpusMissing

#: Where the kernel mounts control groups, version 2:
#: https://docs.kernel.org/admin-guide/cgroup-v2.html
CGROUPS = Path("/sys/fs/cgroup")


def cpu_count() -> int:
    """Return the processors that this process may use, within its control groups' quota."""
    there = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    quota = cpu_quota(CGROUPS, own_cgroup())
    return there if quota is None else max(min(there, math.ceil(quota)), 1)


def memory_bytes() -> int:
    """Return the memory that this process may use, within its control groups' limit."""
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = memory_limit_bytes(CGROUPS, own_cgroup())
    return there if limit is None else min(there, limit)


def own_cgroup(listing: Path = Path("/proc/self/cgroup")) -> str:
    """Return this process's control group, ``/`` if it is unknown."""
    try:
        lines = listing.read_text().splitlines()
    except OSError:
        return "/"
    return next((line.removeprefix("0::") for line in lines if line.startswith("0::")), "/")


def memory_limit_bytes(root: Path, group: str) -> int | None:
    """Return the lowest ``memory.max`` of a control group and its parents; None without any.

    `root` is the mount point of control groups, `group` the path below it, from
    ``/proc/self/cgroup``.
    """
    limits = [int(words[0]) for words in _settings(root, group, "memory.max") if words[0].isdigit()]
    return min((limit for limit in limits if limit > 0), default=None)


def cpu_quota(root: Path, group: str) -> float | None:
    """Return the lowest ``cpu.max`` of a control group and its parents, in processors, or None."""
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
    """Yield the words of a setting in a group and its parents, except where it is missing."""
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


#: A folder for each device, with its vendor and its class: https://docs.kernel.org/PCI/sysfs-pci.html
PCI_DEVICES = Path("/sys/bus/pci/devices")

#: A folder for each GPU that the driver found, such as ``0000:00:1e.0``:
#: https://download.nvidia.com/XFree86/Linux-x86_64/460.80/README/procinterface.html
DRIVER_GPUS = Path("/proc/driver/nvidia/gpus")

_NVIDIA = "0x10de"
#: Display controllers, VGA compatible or 3D: include/linux/pci_ids.h. NVIDIA's switches are
#: bridges.
_GPU_CLASSES = ("0x0300", "0x0302")


def count_on_bus(devices: Path = PCI_DEVICES) -> int:
    """Return the number of NVIDIA GPUs in the machine, with or without a driver."""
    found = ((_text(each / "vendor"), _text(each / "class")) for each in _folders(devices))
    return sum(vendor == _NVIDIA and kind.startswith(_GPU_CLASSES) for vendor, kind in found)


def count_of_driver(gpus: Path = DRIVER_GPUS) -> int:
    """Return the number of GPUs in NVIDIA's driver; 0 without a driver."""
    return sum(1 for _ in _folders(gpus))


def wait_for_driver(
    count: int,
    *,
    deadline_seconds: float,
    pause: Callable[[float], None],
    gpus: Path = DRIVER_GPUS,
) -> None:
    """Wait until the driver, which loads during the boot, shows `count` GPUs.

    Raises `GpusMissing` at the deadline.
    """
    started = time.monotonic()
    while (shown := count_of_driver(gpus)) < count:
        if time.monotonic() - started >= deadline_seconds:
            has = gpus.parent.is_dir()
            raise GpusMissing(
                "NVIDIA's driver shows fewer GPUs than the machine has."
                if has
                else "The machine has GPUs, but its image has no driver for them.",
                given=f"{shown} of {count} GPUs",
                allowed="as many as the PCI bus has",
                advice="See dmesg on the host for errors of the driver (Xid), and launch another "
                "instance."
                if has
                else "Use an image with NVIDIA's driver, such as AWS's Deep Learning Base AMI for "
                "Amazon Linux 2023, or types without GPUs.",
            )
        pause(1.0)


def _folders(path: Path) -> Iterator[Path]:
    try:
        yield from path.iterdir()
    except OSError:
        return


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
