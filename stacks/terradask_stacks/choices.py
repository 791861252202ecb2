"""Choices of an offer's settings: bounds, a list of values, or anything. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import ValidationError

from terradask_stacks.errors import Finding
from terradask_stacks.findings import findings_of
from terradask_stacks.hardware.quantities import parse_bytes
from terradask_stacks.settings.cluster import ClusterSettings
from terradask_stacks.settings.worker_groups import MOST_WORKERS

ANY = "any"

#: Settings whose values may be ranges: a list would read as one.
_RANGES = frozenset({"n_workers", "worker_cpu", "scheduler_cpu"})
_SIZES = frozenset({"worker_memory", "scheduler_memory"})
#: Values of them are tables, or mean more together than each by itself.
_ONLY_ANY = frozenset({"ingress", "worker_groups"})
_ENDS = ("min", "max")

#: Markets, the dearest first.
_MARKETS = ("on-demand", "spot_with_fallback", "spot")


@dataclass(frozen=True)
class Choice:
    """The values of a setting that an offer allows."""

    setting: str
    #: `low`, `high`: Bounds, in the form of the setting; None without one.
    low: Any = None
    high: Any = None
    #: Allowed values, or entries of a list; empty with bounds.
    values: tuple[Any, ...] = ()
    #: Whether every value is allowed.
    is_any: bool = False

    def allows(self, value: Any) -> bool:
        """Return whether a validated value may be chosen."""
        if self.is_any:
            return True
        if self.values:
            chosen = value if isinstance(value, list) else [value]
            return bool(chosen) and all(one in self.values for one in chosen)
        least, most = _span(value)
        return _span(self.low)[0] <= least and most <= _span(self.high, missing=math.inf)[1]

    @property
    def is_open(self) -> bool:
        """Whether there is no largest value."""
        return self.is_any or not (self.values or self.high is not None)

    @property
    def most(self) -> Any:
        """The value that costs the most; None if unknown."""
        if self.high is not None:
            return self.high
        if self.setting == "spot_policy":
            return next((one for one in _MARKETS if one in self.values), None)
        if self.values and _is_list(self.setting):
            return list(self.values)
        return None

    def __str__(self) -> str:
        if self.is_any:
            return "any value"
        if self.values:
            return ", ".join(map(_shown, self.values))
        if self.high is None:
            return f"at least {_shown(self.low)}"
        if self.low is None:
            return f"at most {_shown(self.high)}"
        return f"{_shown(self.low)} to {_shown(self.high)}"


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _span(value: Any, missing: float = -math.inf) -> tuple[float, float]:
    """Return the smallest and largest number in a value of a setting."""
    if value is None:
        return missing, missing
    if value is False:
        # No limit of a time.
        return math.inf, math.inf
    if value == "*":
        return -math.inf, math.inf
    if isinstance(value, list):
        return _span(value[0])[0], _span(value[-1])[1]
    number = parse_bytes(value) if isinstance(value, str) else float(value)
    return number, number


def _leaves(annotation: Any) -> Iterator[Any]:
    """Return the types of which a value of a setting may be."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _leaves(get_args(annotation)[0])
    elif origin is Literal or origin in {list, dict} or not get_args(annotation):
        yield annotation
    else:
        for part in get_args(annotation):
            yield from _leaves(part)


def _types(setting: str) -> list[Any]:
    found = _leaves(ClusterSettings.model_fields[setting].annotation)
    return [one for one in found if one is not type(None)]


def _is_list(setting: str) -> bool:
    return any(get_origin(one) is list for one in _types(setting))


def _has_bounds(setting: str) -> bool:
    """Return whether a setting's values are numbers, or sizes."""
    if setting in _RANGES | _SIZES:
        return True
    return all(one in (int, float, Literal[False]) for one in _types(setting))


def _takes(setting: str) -> str:
    """Return the forms of a choice of a setting."""
    if setting in _ONLY_ANY or any(get_origin(one) is dict for one in _types(setting)):
        return f"'{ANY}'"
    if not _has_bounds(setting):
        return f"a list of values, or '{ANY}'"
    if setting in _SIZES:
        return f'{{ min = "8 GiB", max = "64 GiB" }}, one of the two, or \'{ANY}\''
    return f"{{ min = 1, max = 8 }}, one of the two, or '{ANY}'"


class ChoiceReader:
    """Read the choices of one offer, and keep what is wrong with them. `base` is a cluster of the
    offer of which nothing is chosen.
    """

    def __init__(self, base: ClusterSettings) -> None:
        self.findings: list[Finding] = []
        self._base = base.model_dump(exclude_unset=True) | {"max_workers": MOST_WORKERS}

    def read(self, setting: str, given: Any, where: str) -> Choice | None:
        """Return the choice of a setting; None if it can't be used: findings name `where`."""
        before = len(self.findings)
        if given == ANY and isinstance(given, str):
            return Choice(setting, is_any=True)
        takes = _takes(setting)
        if isinstance(given, Mapping) and _has_bounds(setting):
            choice = self._bounds(setting, given, where)
        elif isinstance(given, list) and given and takes.startswith("a list"):
            choice = Choice(
                setting, values=tuple(self._valued(setting, one, where) for one in given)
            )
        else:
            self._refuse(where, "this isn't a choice of this setting", given, takes)
            return None
        return choice if len(self.findings) == before else None

    def _bounds(self, setting: str, given: Mapping[str, Any], where: str) -> Choice:
        for name in given.keys() - set(_ENDS):
            self._refuse(
                f"{where}, at {name}", "there is no such bound", given[name], "min and max"
            )
        if not given:
            self._refuse(where, "there is neither min nor max", given, _takes(setting))
        ends = {
            name: self._valued(setting, given[name], f"{where}, at {name}")
            for name in _ENDS
            if name in given
        }
        choice = Choice(setting, low=ends.get("min"), high=ends.get("max"))
        if None not in (choice.low, choice.high) and _span(choice.low)[0] > _span(choice.high)[1]:
            self._refuse(where, "min is more than max", dict(given), "min up to max")
        return choice

    def _valued(self, setting: str, given: Any, where: str) -> Any:
        """Return one value in the form of the setting."""
        entry = [given] if _is_list(setting) and isinstance(given, str) else given
        if setting in _SIZES:
            entry = given
        if (isinstance(given, list) or given is False or given == "*") and _has_bounds(setting):
            self._refuse(where, "a bound is one number or size", given, "such as 8, or '8 GiB'")
            return None
        try:
            valid = ClusterSettings.model_validate({**self._base, setting: entry})
        except ValidationError as error:
            for finding in findings_of(error, model=ClusterSettings, origins={})[:1]:
                self.findings.append(replace(finding, where=where, given=given))
            return None
        value = getattr(valid, setting)
        return value[0] if isinstance(value, list) and len(value) == 1 else value

    def _refuse(self, where: str, problem: str, given: Any, allowed: str) -> None:
        self.findings.append(
            Finding(
                where=where,
                problem=problem,
                given=given,
                allowed=allowed,
                advice="correct the offer",
            )
        )
