"""The part of ``[cluster]`` that says which disks the machines have, where they differ from the network's."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from terradask_stacks.settings.base import DiskSize, Section

#: MiB/s of gp3 volumes: https://docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html. Our version of the provider takes no more.
Throughput = Annotated[int, Field(ge=125, le=1000)]


class DiskSettings(Section):
    """Disks of a cluster's hosts. To set any makes a launch template of the cluster's own."""

    worker_disk_size: DiskSize | None = Field(
        default=None, description="Size of a worker's encrypted gp3 volume, in GiB. Unset: network.worker_disk_size_gib."
    )
    worker_disk_throughput: Throughput | None = Field(
        default=None,
        description="Throughput of a worker's volume, in MiB/s. Unset: 125, for which nothing is charged. Above 750 the volume gets the "
        "IOPS that this takes.",
    )
    scheduler_disk_size: DiskSize | None = Field(
        default=None, description="Size of the scheduler's volume, in GiB. Unset: network.scheduler_disk_size_gib."
    )

    @property
    def own_disk_settings(self) -> dict[str, dict[str, int]]:
        """Role -> what is set of its disks, by setting; roles of which nothing is set are left out."""
        found: dict[str, dict[str, int]] = {}
        for name in DiskSettings.model_fields:
            value = getattr(self, name)
            if value is not None:
                found.setdefault(name.partition("_")[0], {})[name] = value
        return found
