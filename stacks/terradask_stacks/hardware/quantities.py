"""Parse numbers of cores and bytes: one, a range, or any."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from terradask_modules.errors import InvalidInput

GIB = 1 << 30

#: No instance has so little memory: a smaller number is meant in GiB.
_LEAST_MEMORY_BYTES = 128 << 20

_POWERS = {
    f"{letter}{infix}": base ** (index + 1)
    for index, letter in enumerate("kmgtp")
    for infix, base in (("", 1000), ("i", 1024))
}
#: Those of Dask's ``parse_bytes``: ``16 GiB``, ``16Gi``, ``16 GB``, ``16G``, in any case.
_UNITS = {"": 1, "b": 1, **_POWERS, **{f"{unit}b": size for unit, size in _POWERS.items()}}


@dataclass(frozen=True, slots=True)
class Span:
    """A range of whole numbers, both ends included."""

    #: The least.
    low: int
    #: The most; None without limit.
    high: int | None

    def __contains__(self, number: int) -> bool:
        return self.low <= number and (self.high is None or number <= self.high)

    @property
    def is_any(self) -> bool:
        """Whether it contains every number."""
        return self.low <= 0 and self.high is None

    def widened_to(self, number: int) -> Span:
        """Return the smallest span that contains this one and a number."""
        return Span(min(self.low, number), None if self.high is None else max(self.high, number))

    def within_a_tenth(self) -> Span:
        """Return it widened by a tenth at each end, as for requests for memory."""
        return Span(-(-self.low * 9 // 10), None if self.high is None else self.high * 11 // 10)


ANY = Span(0, None)


def parse_cores(option: str, given: Any) -> Span:
    """Read a number of cores, a range ``[2, 8]``, or ``"*"`` for any.

    Raises `InvalidInput` if it is none of them; it names `option`.
    """
    return parse_span(
        option,
        given,
        lambda one: _cores(option, one),
        "a whole number such as 4, a range such as [2, 8], or '*' for any",
    )


def parse_memory(option: str, given: Any) -> Span:
    """Read a size of memory in bytes: a number, text such as ``"16 GiB"``, a range of two of them,
    or ``"*"`` for any.

    Raises `InvalidInput` if it is none of them, or so little that another unit was meant; it names
    `option`.
    """
    span = parse_span(
        option,
        given,
        lambda one: _memory(option, one),
        "'16 GiB', a range such as ['16 GiB', '32 GiB'], or '*' for any",
    )
    if span.high is not None and span.high < _LEAST_MEMORY_BYTES:
        raise InvalidInput(
            f"{option} is less than any instance has: a number without a unit means bytes",
            given=repr(given),
            allowed="'16 GiB', or 17179869184",
            advice="write the unit",
        )
    return span


def parse_bytes(text: str) -> int:
    """Read a number of bytes as Dask's ``parse_bytes`` does: ``16 GiB``, ``1.5e3 MB``, ``500k``,
    ``GB``.

    Raises `ValueError` if it is no number with a known unit.
    """
    text = text.replace(" ", "")
    if not any(char.isdigit() for char in text):
        text = f"1{text}"
    digits = text.rstrip("".join(char for char in text if char.isalpha()))
    unit = text[len(digits) :].lower()
    if unit not in _UNITS:
        raise ValueError(f"{unit!r} is not a unit of bytes")
    size = float(digits) * _UNITS[unit]
    if not math.isfinite(size):
        raise ValueError(f"{text!r} is not a number of bytes")
    return int(size)


def bytes_text(size: int) -> str:
    """Return a size as text: ``16 GiB``, ``14.4 GiB``."""
    return f"{size / GIB:.2f}".rstrip("0").rstrip(".") + " GiB"


def bytes_value(size: int) -> str:
    """Return a size exactly, in the notation of settings: ``16 GiB``, ``16 GB``,
    ``17000000001``.
    """
    for unit in ("GiB", "GB", "MiB", "MB"):
        if size and size % _UNITS[unit.lower()] == 0:
            return f"{size // _UNITS[unit.lower()]} {unit}"
    return str(size)


def cores_text(cores: Span) -> str:
    """Return cores as text: ``4 cores``, ``2 to 8 cores``."""
    if cores.high is None:
        return "any number of cores" if cores.is_any else f"{cores.low} cores or more"
    low = "" if cores.low == cores.high else f"{cores.low} to "
    return f"{low}{cores.high} core{'' if cores.high == 1 else 's'}"


def memory_text(memory: Span) -> str:
    """Return memory as text: ``16 GiB of memory``, ``14.4 to 17.6 GiB of memory``."""
    if memory.high is None:
        return "any memory" if memory.is_any else f"{bytes_text(memory.low)} of memory or more"
    low = "" if memory.low == memory.high else f"{bytes_text(memory.low).removesuffix(' GiB')} to "
    return f"{low}{bytes_text(memory.high)} of memory"


def written(span: Span, one: Callable[[int], Any]) -> Any:
    """Return a span in a parameter's notation: ``4``, ``[2, 8]`` or ``"*"``."""
    if span.high is None:
        return "*"
    return one(span.low) if span.low == span.high else [one(span.low), one(span.high)]


def parse_span(option: str, given: Any, read: Callable[[Any], int], allowed: str) -> Span:
    """Read a number, a range of two of them, or ``"*"`` for any.

    Raises `InvalidInput` if it is none of them; it names `option`, and what is `allowed`.
    """
    if isinstance(given, str) and given.strip() == "*":
        return ANY
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        if len(given) != 2:
            raise InvalidInput(
                f"{option} is a list of {len(given)}: a range has two ends",
                given=repr(given),
                allowed=allowed,
            )
        low, high = (read(one) for one in given)
        if low > high:
            raise InvalidInput(
                f"{option} is a range whose end is below its start",
                given=repr(given),
                allowed=allowed,
                advice=f"write [{given[1]!r}, {given[0]!r}]",
            )
        return Span(low, high)
    number = read(given)
    return Span(number, number)


def _cores(option: str, given: Any) -> int:
    if isinstance(given, bool) or not hasattr(given, "__index__") or int(given) < 1:
        raise InvalidInput(
            f"{option} is not a number of cores",
            given=repr(given),
            allowed="a whole number such as 4, a range such as [2, 8], or '*' for any",
        )
    return int(given)


def _memory(option: str, given: Any) -> int:
    try:
        if isinstance(given, str):
            size = parse_bytes(given)
        elif isinstance(given, bool) or not (
            hasattr(given, "__index__") or isinstance(given, float)
        ):
            raise TypeError(given)
        else:
            size = int(given)
        if size <= 0:
            raise ValueError(given)
    except (ValueError, TypeError, OverflowError):
        raise InvalidInput(
            f"{option} is not a size of memory",
            given=repr(given),
            allowed="'16 GiB', a range such as ['16 GiB', '32 GiB'], or '*' for any",
        ) from None
    return size
