"""The part of ``[cluster]`` that says which disks the machines have, where they differ from the
network's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from terradask_stacks.settings.base import DiskSize, Section, Whole

#: MiB/s of gp3 volumes: our version of the provider takes at most 1,000, and the least is what is
#: free. AWS (gp3-performance)
FREE_MIBPS = 125
Throughput = Annotated[Whole, Field(ge=FREE_MIBPS, le=1000)]


@dataclass(frozen=True)
class Disk:
    """A volume that may differ from the network's."""

    #: None: the network's.
    size_gib: int | None = None
    #: None: what gp3 has without charge.
    throughput_mibps: int | None = None

    def __bool__(self) -> bool:
        """Whether it differs at all."""
        return (self.size_gib, self.throughput_mibps) != (None, None)

    def __str__(self) -> str:
        """Return what is said of it: ``250 GiB and 500 MiB/s``."""
        size = "the usual size" if self.size_gib is None else f"{self.size_gib} GiB"
        return (
            size if self.throughput_mibps is None else f"{size} and {self.throughput_mibps} MiB/s"
        )


def smallest_fitting(wanted: int, offered: Iterable[int]) -> int | None:
    """Return the smallest of what is offered that is enough; None beyond it."""
    return min((each for each in offered if each >= wanted), default=None)


class DiskSettings(Section):
    """Disks of a cluster's hosts. Where clusters may have launch templates of their own, setting
    any of them makes one; else hosts take the network's next template up.
    """

    worker_disk_size: DiskSize | None = Field(
        default=None,
        description="Size of a worker's encrypted gp3 volume, in GiB; without own launch "
        "templates, the next of network.worker_disk_sizes_gib. Unset: "
        "network.worker_disk_size_gib.",
        examples=[200],
    )
    worker_disk_throughput: Throughput | None = Field(
        default=None,
        description="Throughput of a worker's volume, in MiB/s; without own launch templates, "
        "the next of network.worker_disk_throughputs_mibps. Unset: 125, which is free.",
        examples=[250],
    )
    scheduler_disk_size: DiskSize | None = Field(
        default=None,
        description="Size of the scheduler's volume, in GiB; without own launch templates, "
        "the next of network.scheduler_disk_sizes_gib. Unset: network.scheduler_disk_size_gib.",
        examples=[100],
    )

    @property
    def own_disk_settings(self) -> dict[str, int]:
        """What is set of disks, by setting."""
        values = {name: getattr(self, name) for name in DiskSettings.model_fields}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def worker_disk(self) -> Disk:
        """The volume of workers that have no group with a name."""
        return Disk(self.worker_disk_size, self.worker_disk_throughput)

    @property
    def own_disks(self) -> dict[str, Disk]:
        """Role -> its volume; roles of which nothing is set are left out."""
        disks = {"worker": self.worker_disk, "scheduler": Disk(self.scheduler_disk_size)}
        return {role: disk for role, disk in disks.items() if disk}
