"""The machine's NVIDIA GPUs: those on its PCI bus, and those that the driver shows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from terradask_host.errors import GpusMissing

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
    """Return how many NVIDIA GPUs the machine has, whatever drivers it has."""
    found = ((_text(each / "vendor"), _text(each / "class")) for each in _folders(devices))
    return sum(vendor == _NVIDIA and kind.startswith(_GPU_CLASSES) for vendor, kind in found)


def count_of_driver(gpus: Path = DRIVER_GPUS) -> int:
    """Return how many GPUs NVIDIA's driver shows; 0 without a driver."""
    return sum(1 for _ in _folders(gpus))


def wait_for_driver(
    count: int,
    *,
    deadline_seconds: float,
    pause: Callable[[float], None],
    gpus: Path = DRIVER_GPUS,
) -> None:
    """Return once the driver, which loads while the machine boots, shows so many GPUs.

    Raises
    ------
    GpusMissing
        When it doesn't in time.
    """
    started = time.monotonic()
    while (shown := count_of_driver(gpus)) < count:
        if time.monotonic() - started >= deadline_seconds:
            has = gpus.parent.is_dir()
            raise GpusMissing(
                "NVIDIA's driver shows fewer GPUs than the machine has."
                if has
                else "The machine has GPUs, and its image no driver for them.",
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
