"""The hardware that is requested for one role, read and checked: cores, memory, GPUs, or instance
types by name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from terradask_modules.errors import InvalidInput
from terradask_stacks.hardware.quantities import (
    Span,
    bytes_value,
    cores_text,
    memory_text,
    parse_cores,
    parse_memory,
    written,
)

Role = Literal["worker", "scheduler"]

#: AWS (documented): An Auto Scaling group takes up to 40 instance types as overrides.
#: https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-mixed-instances-groups.html
MAX_TYPES = 40

#: AWS's format of an instance type.
TYPE_NAME = re.compile(r"[a-z][a-z0-9-]*\.[a-z0-9-]+")


@dataclass(frozen=True, kw_only=True)
class HardwareRequest:
    """The hardware request for one role's instances. Created by `HardwareRequest.of`, which parses
    parameters.
    """

    role: Role = "worker"
    #: Cores (AWS's vCPUs); None if unset.
    cpu: Span | None = None
    #: Requested memory in bytes: the chosen type's is within 10 % of it. None if unset.
    memory: Span | None = None
    #: GPUs on each instance: 0 none, whatever others have; None if unset.
    gpu: int | None = None
    #: The GPU's model, such as ``T4``.
    gpu_type: str | None = None
    #: Instance types by name, in order of preference; empty if terradask is to choose them.
    vm_types: tuple[str, ...] = ()
    #: ARM processors, or x86-64; None if unset.
    arm: bool | None = None
    #: Prefix of the parameters' names in messages.
    prefix: str = "worker_"

    @classmethod
    def of(
        cls,
        role: Role = "worker",
        *,
        cpu: Any = None,
        memory: Any = None,
        gpu: Any = None,
        gpu_type: Any = None,
        vm_types: Any = None,
        arm: Any = None,
        prefix: str | None = None,
    ) -> HardwareRequest:
        """Read what was given for ``worker_cpu``, ``worker_memory``, … or the scheduler's.

        Raises `InvalidInput` if a value can't be read, types are named together with cores or
        memory, or a GPU's model together with no GPU.

        Parameters
        ----------
        role
            ``worker`` or ``scheduler``.
        cpu
            A number, a range ``[2, 8]``, or ``"*"``.
        memory
            Bytes, text such as ``"16 GiB"``, a range of two of them, or ``"*"``.
        gpu
            A number; True is 1, False 0.
        gpu_type
            A model, in AWS's or another cloud's notation: ``T4``, ``nvidia-tesla-t4``. Means one
            GPU if `gpu` is unset.
        vm_types
            An instance type or a list of them.
        arm
            True or False.
        prefix
            Prefix of the names in messages. Unset: ``worker_`` or ``scheduler_``.
        """
        prefix = f"{role}_" if prefix is None else prefix
        request = cls(
            role=role,
            cpu=None if cpu is None else parse_cores(f"{prefix}cpu", cpu),
            memory=None if memory is None else parse_memory(f"{prefix}memory", memory),
            gpu=None if gpu is None else _count(f"{prefix}gpu", gpu),
            gpu_type=None if gpu_type is None else _text(f"{prefix}gpu_type", gpu_type),
            vm_types=() if vm_types is None else _types(f"{prefix}vm_types", vm_types),
            arm=None if arm is None else _flag(arm),
            prefix=prefix,
        )
        _check_combination(request)
        return request

    def option(self, name: str) -> str:
        """Return a parameter's full name: ``worker_cpu`` for ``cpu``."""
        return name if name == "arm" else f"{self.prefix}{name}"

    @property
    def whose(self) -> str:
        """The owner of the instances, for messages: a role, or the table that contains the
        parameters.
        """
        return self.prefix.removesuffix(".") if self.prefix.endswith(".") else self.role

    @property
    def gpus_wanted(self) -> int:
        """The required number of GPUs."""
        return self.gpu if self.gpu is not None else int(self.gpu_type is not None)

    @property
    def is_silent(self) -> bool:
        """Whether the request is empty, or only for an architecture and no GPU."""
        return not self.gpu and self.parameters().keys() <= {self.option("gpu"), self.option("arm")}

    @property
    def is_by_name(self) -> bool:
        """Whether the request is empty, or only names types."""
        return self.is_silent or bool(self.vm_types and self.gpu_type is None)

    def parameters(self) -> dict[str, Any]:
        """Return the set parameters, by full name, in the notation of settings."""
        said = {
            "cpu": None if self.cpu is None else written(self.cpu, int),
            "memory": None if self.memory is None else written(self.memory, bytes_value),
            "gpu": self.gpu,
            "gpu_type": self.gpu_type,
            "vm_types": list(self.vm_types) or None,
            "arm": self.arm,
        }
        return {self.option(name): value for name, value in said.items() if value is not None}

    def given(self) -> str | None:
        """Return the set parameters in Python's notation; None if there are none."""
        return ", ".join(f"{name}={value!r}" for name, value in self.parameters().items()) or None

    def describe(self) -> str:
        """Return it as text: ``4 cores, 16 GiB of memory, 1 T4 GPU``."""
        if self.vm_types:
            return ", ".join(self.vm_types)
        count = self.gpus_wanted
        parts = [
            None if self.cpu is None else cores_text(self.cpu),
            None if self.memory is None else memory_text(self.memory),
            f"{count} {f'{self.gpu_type} ' if self.gpu_type else ''}GPU{'' if count == 1 else 's'}"
            if count
            else None,
        ]
        return ", ".join(part for part in parts if part) or "the default"


def _check_combination(request: HardwareRequest) -> None:
    sizes = [
        request.option(name)
        for name, value in (("cpu", request.cpu), ("memory", request.memory))
        if value is not None
    ]
    types = request.option("vm_types")
    if request.vm_types and sizes:
        raise InvalidInput(
            (
                f"{types} and {' and '.join(sizes)} are given together: a type determines its "
                "cores and its memory"
            ),
            given=request.given(),
            allowed=f"{types}, or {request.option('cpu')} and {request.option('memory')}",
            advice=f"leave {' and '.join(sizes)} out, or {types}",
        )
    if request.gpu == 0 and request.gpu_type is not None:
        names = [request.option("gpu"), request.option("gpu_type")]
        raise InvalidInput(
            f"{names[1]} is given, but {names[0]} means no GPU",
            given=request.given(),
            allowed="a number of GPUs and their model, or neither",
            advice=f"leave {names[1]} out, or {names[0]}",
        )


def _count(option: str, given: Any) -> int:
    if not hasattr(given, "__index__") or int(given) < 0:
        raise InvalidInput(
            f"{option} is not a number of GPUs",
            given=repr(given),
            allowed="a whole number such as 1, True or False",
        )
    return int(given)


def _text(option: str, given: Any) -> str:
    if not isinstance(given, str) or not given.strip():
        raise InvalidInput(
            f"{option} is not a GPU model",
            given=repr(given),
            allowed="a name such as 'T4' or 'A10G'",
        )
    return given.strip()


def _flag(given: Any) -> bool:
    if not isinstance(given, bool):
        raise InvalidInput(
            "arm is neither True nor False",
            given=repr(given),
            allowed="True for ARM, False for x86-64",
        )
    return given


def _types(option: str, given: Any) -> tuple[str, ...]:
    names = [given] if isinstance(given, str) else given
    if (
        not isinstance(names, Sequence)
        or not names
        or not all(isinstance(name, str) for name in names)
    ):
        raise InvalidInput(
            f"{option} is not a list of instance types",
            given=repr(given),
            allowed="a list such as ['m6i.xlarge', 'm5.xlarge']",
        )
    wrong = [name for name in names if not TYPE_NAME.fullmatch(name)]
    if wrong:
        raise InvalidInput(
            f"{option} contains a value that is not an instance type",
            given=", ".join(map(repr, wrong)),
            allowed="types such as m6i.xlarge",
        )
    found = tuple(dict.fromkeys(names))
    if len(found) > MAX_TYPES:
        raise InvalidInput(
            f"{option} has too many types for a group",
            given=f"{len(found)} types",
            allowed=f"up to {MAX_TYPES}",
        )
    return found
