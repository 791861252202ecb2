"""The part of ``[cluster]`` that says what the machines are."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, model_validator

from terradask_modules.errors import InvalidInput
from terradask_modules.names import SCHEDULER_GROUP, WORKER_GROUP
from terradask_stacks.hardware.request import HardwareRequest, Role
from terradask_stacks.settings.base import InstanceTypes, Section
from terradask_stacks.validators.refusal import refusal_of

#: Of a role of which nothing is said: 4 cores and 16 GiB, first what has been the default all
#: along, then its siblings.
DEFAULT_INSTANCE_TYPES = ("m6i.xlarge", "m5.xlarge", "m6a.xlarge", "m5a.xlarge")

#: The same for ARM: Graviton3, then its siblings.
DEFAULT_ARM_INSTANCE_TYPES = ("m7g.xlarge", "m6g.xlarge", "m8g.xlarge")

_SIZES = ("cpu", "memory")


def _excluded_by(prefix: str) -> dict[str, tuple[str, ...]]:
    return {
        f"{prefix}vm_types": tuple(f"{prefix}{size}" for size in _SIZES),
        **{f"{prefix}{size}": (f"{prefix}vm_types",) for size in _SIZES},
    }


#: Settings that exclude each other: one takes back the other where that was given before.
EXCLUDED_BY = _excluded_by("worker_") | _excluded_by("scheduler_")

#: The same in the table of a group of workers.
EXCLUDED_BY_IN_GROUP = _excluded_by("")


def default_types(*, arm: bool | None) -> tuple[str, ...]:
    """Return the types of a role of which nothing is said, in order."""
    return DEFAULT_ARM_INSTANCE_TYPES if arm else DEFAULT_INSTANCE_TYPES


def _canonical(value: Any, info: ValidationInfo) -> Any:
    """Return a value as everyone writes it, so that two ways to ask for the same are the same in a
    plan.
    """
    if value is None:
        return None
    name = str(info.field_name)
    role: Role = "scheduler" if name.startswith("scheduler_") else "worker"
    prefix = f"{role}_" if name.startswith(f"{role}_") else ""
    try:
        return HardwareRequest.of(
            role, prefix=prefix, **{name.removeprefix(prefix): value}
        ).parameters()[name]
    except InvalidInput as error:
        raise refusal_of(error) from error


Cores = Annotated[int | list[int] | Literal["*"] | None, BeforeValidator(_canonical)]
Memory = Annotated[str | list[str] | None, BeforeValidator(_canonical)]
Gpus = Annotated[int | None, BeforeValidator(_canonical)]
GpuType = Annotated[str | None, BeforeValidator(_canonical)]


class HardwareSettings(Section):
    """The machines of a cluster: instance types by name, or requested by their hardware."""

    worker_vm_types: InstanceTypes | None = Field(
        default=None,
        description="Instance types for workers, in order of preference. Unset: chosen by "
        "worker_cpu, worker_memory and worker_gpu; without any, those "
        f"of {', '.join(DEFAULT_INSTANCE_TYPES)} that the zone has; for ARM, of "
        f"{', '.join(DEFAULT_ARM_INSTANCE_TYPES)}.",
        examples=[["m6i.xlarge", "m5.xlarge"]],
    )
    worker_cpu: Cores = Field(
        default=None,
        description="Cores (AWS's vCPUs) of a worker's instance: 4, a range [2, 8], or '*' "
        "for any.",
        examples=[[4, 8]],
    )
    worker_memory: Memory = Field(
        default=None,
        description="Memory of a worker's instance, within 10 %: '16 GiB', a range ['16 GiB', "
        "'32 GiB'], or '*' for any. Without a unit: bytes.",
        examples=["32 GiB"],
    )
    worker_gpu: Gpus = Field(
        default=None, description="GPUs of a worker's instance; true is 1.", examples=[1]
    )
    worker_gpu_type: GpuType = Field(
        default=None,
        description="Model of the workers' GPUs, such as 'A10G', and one GPU if worker_gpu is "
        "unset. Unset: T4.",
        examples=["A10G"],
    )
    scheduler_vm_types: InstanceTypes | None = Field(
        default=None,
        description=(
            "Instance types for the scheduler, in order of preference. Unset: as for workers."
        ),
        examples=[["m6i.large"]],
    )
    scheduler_cpu: Cores = Field(
        default=None, description="Cores of the scheduler's instance, as worker_cpu.", examples=[2]
    )
    scheduler_memory: Memory = Field(
        default=None,
        description="Memory of the scheduler's instance, as worker_memory.",
        examples=["8 GiB"],
    )
    scheduler_gpu: Gpus = Field(
        default=None,
        description="GPUs of the scheduler's instance; 0 or false: none. Unset: one if "
        "workers have GPUs and there is such a type.",
        examples=[0],
    )

    arm: bool | None = Field(
        default=None,
        description="true: ARM processors (AWS Graviton) for all instances; false: x86-64. "
        "Unset: as the named types need, otherwise x86-64.",
        examples=[True],
    )

    @property
    def hardware_requests(self) -> dict[str, HardwareRequest]:
        """What is asked of the machines of each group."""
        return {WORKER_GROUP: self._by_role["worker"], SCHEDULER_GROUP: self._by_role["scheduler"]}

    @cached_property
    def _by_role(self) -> dict[Role, HardwareRequest]:
        """What is asked of the machines of each role: made when the settings are validated, and
        kept.
        """
        roles: tuple[Role, ...] = ("worker", "scheduler")
        return {
            role: HardwareRequest.of(role, arm=self.arm, **self._said_of(role)) for role in roles
        }

    def _said_of(self, role: Role) -> dict[str, Any]:
        return {
            name: getattr(self, f"{role}_{name}", None)
            for name in ("cpu", "memory", "gpu", "gpu_type", "vm_types")
        }

    @model_validator(mode="after")
    def _requests_go_together(self) -> HardwareSettings:
        try:
            _ = self._by_role
        except InvalidInput as error:
            raise refusal_of(error, f" ({error.given})") from error
        return self
