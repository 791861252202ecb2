"""The types that meet a request, best first, and what speaks against the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from terradask._instance_types.constraints import Attempt, Rejection, attempts_for
from terradask._instance_types.model import InstanceType
from terradask._instance_types.supply import Supply
from terradask_stacks.hardware.request import MAX_TYPES, HardwareRequest

#: A type may cost this much more than the cheapest: a fallback must be no surprise.
PRICE_LIMIT = 2


@dataclass(frozen=True)
class Selection:
    """The types for a request."""

    attempt: Attempt
    #: The types, best first; empty where none meets it.
    types: tuple[InstanceType, ...]
    #: The other types, by what speaks against them, best first.
    rejections: Mapping[Rejection, tuple[InstanceType, ...]]


def select(request: HardwareRequest, supply: Supply) -> Selection:
    """Return a request's types, of its first attempt that finds any. Raises `InvalidInput`."""
    selections = []
    for attempt in attempts_for(request, supply):
        selections.append(_selection(attempt, supply))
        if selections[-1].types:
            return selections[-1]
    return selections[0]


def _selection(attempt: Attempt, supply: Supply) -> Selection:
    fitting: list[InstanceType] = []
    against: dict[Rejection, list[InstanceType]] = {}
    for one in supply.ranked:
        rejection = attempt.constraints.rejection(one, supply)
        (fitting if rejection is None else against.setdefault(rejection, [])).append(one)
    kept: list[InstanceType] = []
    dear: list[InstanceType] = []
    for one in fitting:
        (dear if _too_dear(one, fitting[0], supply) else kept).append(one)
    against |= {Rejection.PRICE: dear, Rejection.BEYOND: kept[MAX_TYPES:]}
    return Selection(
        attempt,
        tuple(kept[:MAX_TYPES]),
        {why: tuple(against[why]) for why in Rejection if against.get(why)},
    )


def _too_dear(one: InstanceType, cheapest: InstanceType, supply: Supply) -> bool:
    """Where a price is missing, size stands in for it."""
    price, least = supply.prices.get(one.name), supply.prices.get(cheapest.name)
    if price is not None and least is not None:
        return price > PRICE_LIMIT * least
    return (
        one.vcpus > PRICE_LIMIT * cheapest.vcpus
        or one.memory_mib > PRICE_LIMIT * cheapest.memory_mib
    )
