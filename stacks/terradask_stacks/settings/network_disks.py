"""Which disks a network's launch templates have."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from terradask_stacks.settings.base import DiskSize, Section
from terradask_stacks.settings.disks import FREE_MIBPS, Throughput
from terradask_stacks.validators.refusal import unique


class NetworkDiskSettings(Section):
    """A network's settings for the disks of its clusters' hosts."""

    worker_disk_size_gib: DiskSize = Field(
        default=100, description="Size of a worker's encrypted gp3 volume, in GiB."
    )
    worker_disk_sizes_gib: Annotated[list[DiskSize], AfterValidator(unique)] = Field(
        default=[250, 500, 1000],
        max_length=8,
        description="Larger sizes that clusters may ask for with worker_disk_size, in GiB: for "
        "each there is a launch template, which costs nothing; a worker's volume has the smallest "
        "that is large enough. Not used where clusters have launch templates of their own.",
    )
    worker_disk_throughputs_mibps: Annotated[list[Throughput], AfterValidator(unique)] = Field(
        default=[500],
        max_length=3,
        description="Higher throughputs that clusters may ask for with worker_disk_throughput, in "
        "MiB/s: each size of a worker's disk has a launch template with each of these too; a "
        "worker's volume has the smallest that is enough, which AWS charges for.",
    )
    scheduler_disk_size_gib: DiskSize = Field(
        default=50, description="Size of a scheduler's encrypted gp3 volume, in GiB."
    )
    scheduler_disk_sizes_gib: Annotated[list[DiskSize], AfterValidator(unique)] = Field(
        default=[250],
        max_length=8,
        description="Larger sizes that clusters may ask for with scheduler_disk_size, in GiB, as "
        "worker_disk_sizes_gib are for workers.",
    )

    @property
    def larger_worker_disks_gib(self) -> list[int]:
        """The sizes that have a launch template beside the one of all workers."""
        return sorted(
            size for size in self.worker_disk_sizes_gib if size > self.worker_disk_size_gib
        )

    @property
    def larger_scheduler_disks_gib(self) -> list[int]:
        """The same for schedulers."""
        return sorted(
            size for size in self.scheduler_disk_sizes_gib if size > self.scheduler_disk_size_gib
        )

    @property
    def faster_worker_disks_mibps(self) -> list[int]:
        """The throughputs that have launch templates beside those with what is free."""
        return sorted(each for each in self.worker_disk_throughputs_mibps if each > FREE_MIBPS)
