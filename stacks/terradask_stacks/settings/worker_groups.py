"""Tables ``[cluster.worker_groups.NAME]``: groups of workers with machines of their own, beside
those of the cluster.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from terradask_modules.errors import InvalidInput
from terradask_modules.markets import SpotPolicy
from terradask_modules.names import WORKER_GROUPS_RESERVED, is_worker_group
from terradask_stacks.hardware.request import HardwareRequest
from terradask_stacks.settings.base import DiskSize, InstanceTypes, Number, Section, Whole
from terradask_stacks.settings.disks import Disk, Throughput
from terradask_stacks.settings.hardware import Cores, Gpus, GpuType, Memory
from terradask_stacks.settings.reservations import Reservation
from terradask_stacks.validators.refusal import matching, refusal_of, refuse

#: The role of an isolated cluster's scheduler names every Auto Scaling group in its policy.
#: AWS (iam-sizes)
MOST_GROUPS = 8
#: Most workers of a group.
MOST_WORKERS = 10_000


def _group_name(name: str) -> str:
    if not is_worker_group(name):
        raise refuse(
            f"no group of workers can be named {name!r}",
            allowed="a lower-case letter, then up to 15 lower-case letters and digits; not "
            + ", ".join(WORKER_GROUPS_RESERVED),
            advice="the name becomes part of names in AWS, where hyphens separate the parts",
        )
    return name


_resource_name = matching(
    r"[A-Za-z_][A-Za-z0-9_.-]{0,63}",
    "the name of a resource",
    "up to 64 letters, digits and _ . -, with a letter or _ in front, such as GPU",
)
GroupName = Annotated[str, AfterValidator(_group_name)]
Resources = dict[
    Annotated[str, AfterValidator(_resource_name)],
    Annotated[Number, Field(gt=0, allow_inf_nan=False)],
]


class WorkerGroupSettings(Section):
    """A group of workers with different machines than the cluster's other workers."""

    cpu: Cores = Field(default=None, description="Cores of an instance, as worker_cpu.")
    memory: Memory = Field(default=None, description="Memory of an instance, as worker_memory.")
    gpu: Gpus = Field(default=None, description="GPUs of an instance, as worker_gpu.")
    gpu_type: GpuType = Field(default=None, description="Model of the GPUs, as worker_gpu_type.")
    vm_types: InstanceTypes | None = Field(
        default=None, description="Instance types in order of preference, as worker_vm_types."
    )
    n_workers: Whole = Field(default=0, ge=0, description="Workers of the group to start with.")
    max_workers: Whole = Field(
        default=20,
        ge=1,
        le=MOST_WORKERS,
        description="Upper limit of the group's workers; shown and priced in the plan.",
    )
    standby: Whole = Field(
        default=0,
        ge=0,
        le=100,
        description="Prepared hosts that are kept beside the group's, as the cluster's standby.",
    )
    spot_policy: SpotPolicy | None = Field(
        default=None, description="Market of the group's workers. Unset: the cluster's spot_policy."
    )
    capacity_reservation: Reservation | None = Field(
        default=None,
        description="Reserved capacity of the group's workers, as the cluster's "
        "capacity_reservation, which doesn't count for them.",
    )
    disk_size: DiskSize | None = Field(
        default=None,
        description=(
            "Size of a worker's encrypted gp3 volume, in GiB. Unset: the cluster's "
            "worker_disk_size."
        ),
    )
    disk_throughput: Throughput | None = Field(
        default=None,
        description=(
            "Throughput of a worker's volume, in MiB/s. Unset: the cluster's "
            "worker_disk_throughput."
        ),
    )
    resources: Resources = Field(
        default={},
        description="Dask's resources of each worker, such as { GPU = 1 }. Tasks that request "
        "them run only here.",
    )

    def hardware_request(self, name: str, *, arm: bool | None = None) -> HardwareRequest:
        """Return what is asked of the machines of a group of this name; `arm` is the cluster's."""
        return replace(self._request, prefix=f"worker_groups.{name}.", arm=arm)

    @cached_property
    def _request(self) -> HardwareRequest:
        """What is asked of the machines of a group of any name: made when the settings are
        validated, and kept.
        """
        said = {key: getattr(self, key) for key in ("cpu", "memory", "gpu", "gpu_type", "vm_types")}
        return HardwareRequest.of("worker", prefix="", **said)

    @property
    def own_disk_settings(self) -> dict[str, int]:
        """What is set of its disks, by setting."""
        values = {"disk_size": self.disk_size, "disk_throughput": self.disk_throughput}
        return {name: value for name, value in values.items() if value is not None}

    def disk(self, of_workers: Disk) -> Disk:
        """Return the volume of the group's hosts: that of workers that have no group with a name,
        but for what the group sets.
        """
        return Disk(
            self.disk_size or of_workers.size_gib,
            self.disk_throughput or of_workers.throughput_mibps,
        )

    @model_validator(mode="after")
    def _goes_together(self) -> WorkerGroupSettings:
        try:
            _ = self._request
        except InvalidInput as error:
            raise refusal_of(error, f" ({error.given})") from error
        if self.n_workers > self.max_workers:
            raise refuse(
                f"n_workers is {self.n_workers}, more than max_workers, {self.max_workers}",
                allowed=f"0 to {self.max_workers}",
                advice="raise the group's max_workers: it is its limit in the plan",
            )
        return self
