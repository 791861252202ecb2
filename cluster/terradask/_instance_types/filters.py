"""Which instance types a listing shows. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from terradask._instance_types.constraints import model_key
from terradask._instance_types.model import InstanceType
from terradask.errors import InvalidInput
from terradask_stacks.hardware.quantities import ANY, Span, parse_cores, parse_memory, parse_span

_NUMBERS = "a number such as 4, a range such as [2, 8], '2-8', or '8+' for 8 and more"
_SIZES = (
    "a size such as '16 GiB', a range such as ['16 GiB', '64 GiB'], '16-64 GiB', or '64 "
    "GiB+' for that and more"
)


@dataclass(frozen=True, kw_only=True)
class TypeFilter:
    """What an instance type has to be. Made by `TypeFilter.of`, which reads what people write."""

    #: Patterns for names, such as ``m6i.*``; one without a point is for families. Empty: all.
    names: tuple[str, ...] = ()
    cores: Span = ANY
    #: Memory in bytes, tolerance included.
    memory: Span = ANY
    gpus: Span = ANY
    #: The GPUs' model, in whatever way it is written; None for any.
    gpu_model: str | None = None
    #: ARM processors, or x86-64; None for both.
    arm: bool | None = None
    #: With local disks, or without; None for both.
    local_disk: bool | None = None
    #: Those alone that AWS counts as current.
    current_generation: bool = False

    @classmethod
    def of(
        cls,
        names: str | Sequence[str] = (),
        *,
        cores: Any = None,
        memory: Any = None,
        gpu: Any = None,
        gpu_type: str | None = None,
        arm: bool | None = None,
        local_disk: bool | None = None,
        current_generation: bool = False,
    ) -> TypeFilter:
        """Read what was given; None is no filter. Raises `InvalidInput`."""
        return cls(
            names=(names,) if isinstance(names, str) else tuple(names),
            cores=_span(
                "cores", cores, lambda one: parse_cores("cores", _number(one)).low, _NUMBERS
            ),
            memory=_span(
                "memory", memory, lambda one: parse_memory("memory", one).low, _SIZES
            ).within_a_tenth(),
            gpus=_gpus(gpu, gpu_type),
            gpu_model=gpu_type,
            arm=arm,
            local_disk=local_disk,
            current_generation=current_generation,
        )

    def matches(self, one: InstanceType) -> bool:
        """Return whether a type is as wanted."""
        return (
            one.vcpus in self.cores
            and one.memory_mib << 20 in self.memory
            and (one.gpus.count if one.gpus else 0) in self.gpus
            and (
                self.gpu_model is None
                or (one.gpus is not None and model_key(one.gpus.name) == model_key(self.gpu_model))
            )
            and self.arm in (None, one.architecture == "arm64")
            and self.local_disk in (None, one.local_disk_gb > 0)
            and (one.current_generation or not self.current_generation)
            and (not self.names or any(_named(one, pattern) for pattern in self.names))
        )


def _named(one: InstanceType, pattern: str) -> bool:
    return fnmatchcase(one.name if "." in pattern else one.family, pattern)


def _gpus(given: Any, gpu_type: str | None) -> Span:
    if given is None:
        return ANY if gpu_type is None else Span(1, None)
    if isinstance(given, bool):
        return Span(1, None) if given else Span(0, 0)
    return _span("gpu", given, _count, f"True for any, {_NUMBERS}")


def _span(option: str, given: Any, read: Callable[[Any], int], allowed: str) -> Span:
    """Read a number, a range of two, or either as text."""
    if given is None:
        return ANY
    if isinstance(given, str):
        text = given.rstrip()
        if text.endswith("+"):
            return Span(read(text[:-1]), None)
        return parse_span(option, _ends(text), read, allowed)
    return parse_span(option, given, read, allowed)


def _ends(text: str) -> str | tuple[str, str]:
    """Split ``16-64 GiB``; what has no unit has the other end's."""
    low, dash, high = text.partition("-")
    if not dash:
        return text
    return low if re.search("[A-Za-z]", low) else low + "".join(re.findall("[A-Za-z]", high)), high


def _number(given: Any) -> Any:
    return int(given) if isinstance(given, str) and given.strip().isdecimal() else given


def _count(given: Any) -> int:
    number = _number(given)
    if isinstance(number, bool) or not hasattr(number, "__index__") or int(number) < 0:
        raise InvalidInput(
            "gpu is not a number of GPUs", given=repr(given), allowed=f"True for any, {_NUMBERS}"
        )
    return int(number)
