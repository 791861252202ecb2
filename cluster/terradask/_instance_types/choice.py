"""Choosing instance types for an ask: a catalog and prices in, types in order with their reasons out. Pure and deterministic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from terradask._instance_types.alternatives import no_match
from terradask._instance_types.explanation import explain
from terradask._instance_types.model import Catalog, InstanceType
from terradask._instance_types.named import named_types
from terradask._instance_types.selection import select
from terradask._instance_types.supply import Supply
from terradask.errors import NoMatchingType
from terradask_modules.markets import Market
from terradask_stacks.hardware.architecture import Architecture
from terradask_stacks.hardware.ask import HardwareRequest

_EXAMPLES = 3


@dataclass(frozen=True)
class Chosen:
    """A type that was chosen.

    Parameters
    ----------
    type
        The instance type.
    usd_per_hour
        Its price on demand; None where it isn't known.
    reason
        Why it stands where it stands, such as ``1.11 times the cheapest``.
    """

    type: InstanceType
    usd_per_hour: Decimal | None
    reason: str

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON output, the price as text."""
        gpus = self.type.gpus
        return {
            "name": self.type.name,
            "vcpus": self.type.vcpus,
            "memory_mib": self.type.memory_mib,
            "gpus": None if gpus is None else {"count": gpus.count, "name": gpus.name},
            "usd_per_hour": None if self.usd_per_hour is None else str(self.usd_per_hour),
            "reason": self.reason,
        }


@dataclass(frozen=True)
class LeftOut:
    """Types that were not chosen for one reason.

    Parameters
    ----------
    reason
        Why, to be read behind a number of types.
    count
        How many.
    examples
        The first of them by price.
    """

    reason: str
    count: int
    examples: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON output."""
        return {"reason": self.reason, "count": self.count, "examples": list(self.examples)}


@dataclass(frozen=True)
class Choice:
    """The types for an ask.

    Parameters
    ----------
    ask
        What was asked.
    where
        Zones or region, for people.
    architecture
        Of all the types.
    rule
        Which families came into question, and why.
    types
        The types in the order in which a group tries them; never empty.
    left_out
        The other types of the region, by reason.
    notes
        What is unusual about the choice.
    """

    ask: HardwareRequest
    where: str
    architecture: Architecture
    rule: str
    types: tuple[Chosen, ...]
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The types' names, in order."""
        return tuple(one.type.name for one in self.types)

    @property
    def has_gpus(self) -> bool:
        """Whether the first type has a GPU."""
        return self.types[0].type.gpus is not None

    @property
    def reason(self) -> str:
        """The choice in a line: the first type, how many there are besides, and why."""
        more = f" and {len(self.types) - 1} more" if len(self.types) > 1 else ""
        asked = "" if self.ask.vm_types or self.ask.is_silent else f" for {self.ask.describe()}"
        return f"{self.names[0]}{more}{asked}: {self.rule}"

    def explain(self) -> str:
        """Return the choice for people: several lines of plain text."""
        return explain(self)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON output."""
        return {
            "role": self.ask.role,
            "asked": self.ask.parameters(),
            "where": self.where,
            "architecture": self.architecture,
            "rule": self.rule,
            "types": [one.as_dict() for one in self.types],
            "left_out": [one.as_dict() for one in self.left_out],
            "notes": list(self.notes),
        }


def choose(
    ask: HardwareRequest,
    catalog: Catalog,
    prices: Mapping[str, Decimal] | None = None,
    *,
    zones: Iterable[str] | None = None,
    markets: Iterable[Market] = ("on-demand",),
) -> Choice:
    """Choose the instance types for an ask.

    Raises
    ------
    NoMatchingType
        If no type is as asked for; it carries the nearest asks that find something.
    UnknownInstanceType
        If a named type doesn't exist, or isn't offered in the zones.
    ArgumentCombination
        If named types don't go together, or not with the rest of the ask.
    InvalidHardware
        If the region has no such GPU.
    UnknownZone
        If the region has no such zone.
    """
    supply = Supply.of(catalog, prices, zones=zones, markets=markets)
    return _named(ask, supply) if ask.vm_types else _selected(ask, supply)


def choose_scheduler(
    ask: HardwareRequest,
    workers: Choice,
    catalog: Catalog,
    prices: Mapping[str, Decimal] | None = None,
    *,
    zones: Iterable[str] | None = None,
) -> Choice:
    """Choose the instance types for the scheduler of some workers.

    Where its own types aren't named, it has the workers' architecture unless ``arm`` says otherwise, and a GPU when they have one and
    nothing is said about its own, as far as there is one that meets the rest of the ask.

    Raises
    ------
    TerradaskError
        As `choose` does.
    """
    if ask.vm_types:
        return choose(ask, catalog, prices, zones=zones)
    if ask.arm is None and workers.architecture == "arm64":
        ask = replace(ask, arm=True)
    if ask.gpu is not None or ask.gpu_type is not None or not workers.has_gpus:
        return choose(ask, catalog, prices, zones=zones)
    try:
        choice = choose(replace(ask, gpu=1), catalog, prices, zones=zones)
    except NoMatchingType:
        choice = choose(ask, catalog, prices, zones=zones)
        return replace(
            choice, notes=(*choice.notes, "the workers have GPUs, and no type with one is as asked for here: the scheduler has none")
        )
    return replace(choice, notes=(*choice.notes, f"a GPU, since the workers have them; {ask.option('gpu')}=False leaves it out"))


def _selected(ask: HardwareRequest, supply: Supply) -> Choice:
    selection = select(ask, supply)
    if not selection.types:
        raise no_match(ask, supply, selection)
    attempt = selection.attempt
    unpriced = sum(one.name not in supply.prices for one in selection.types)
    notes = [attempt.note] if attempt.note is not None else []
    if unpriced == len(selection.types):
        notes.append("no price is known: the smaller types come first, then the newer")
    elif unpriced:
        notes.append(f"{unpriced} of {len(selection.types)} types have no known price: they come last, the smaller first")
    return Choice(
        ask=ask,
        where=supply.where,
        architecture=attempt.demand.architecture,
        rule=attempt.rule,
        types=_chosen(selection.types, supply),
        left_out=tuple(
            LeftOut(why.value, len(types), tuple(one.name for one in types[:_EXAMPLES])) for why, types in selection.objections.items()
        ),
        notes=tuple(notes),
    )


def _chosen(types: tuple[InstanceType, ...], supply: Supply) -> tuple[Chosen, ...]:
    least = supply.prices.get(types[0].name)
    found = []
    for one in types:
        price = supply.prices.get(one.name)
        if price is None:
            reason = "no known price"
        elif price == least:
            reason = "the cheapest" if one is types[0] else "as cheap"
        else:
            reason = f"{price / least:.2f} times the cheapest" if least else "dearer"
        found.append(Chosen(one, price, reason))
    return tuple(found)


def _named(ask: HardwareRequest, supply: Supply) -> Choice:
    types = named_types(ask, supply)
    notes = []
    if ask.gpu is not None and any((one.gpus.count if one.gpus else 0) != ask.gpu for one in types):
        notes.append(f"{ask.option('gpu')}={ask.gpu} doesn't count: the named types have the GPUs that they have")
    return Choice(
        ask=ask,
        where=supply.where,
        architecture=types[0].architecture,
        rule="the types that are named, in their order",
        types=tuple(Chosen(one, supply.prices.get(one.name), f"named, number {place}") for place, one in enumerate(types, 1)),
        notes=tuple(notes),
    )
