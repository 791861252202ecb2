"""Choose instance types: catalog and prices in, types with reasons out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from decimal import Decimal

from terradask._instance_types.alternatives import no_match
from terradask._instance_types.choice import Choice, Chosen, LeftOut, listed_choice
from terradask._instance_types.model import Catalog, InstanceType
from terradask._instance_types.named import named_types
from terradask._instance_types.selection import select
from terradask._instance_types.supply import Supply
from terradask.errors import NoMatchingType
from terradask_modules.markets import Market
from terradask_stacks.hardware.request import HardwareRequest

_EXAMPLES = 3


def choose(
    request: HardwareRequest,
    catalog: Catalog,
    prices: Mapping[str, Decimal] | None = None,
    *,
    zones: Iterable[str] | None = None,
    markets: Iterable[Market] = ("on-demand",),
) -> Choice:
    """Choose the instance types for a request.

    Raises `NoMatchingType` with the nearest requests that find something, `NoMatchingType`,
    `InvalidInput`.
    """
    supply = Supply.of(catalog, prices, zones=zones, markets=markets)
    return _named(request, supply) if request.vm_types else _selected(request, supply)


def choose_default(
    request: HardwareRequest,
    names: Iterable[str],
    catalog: Catalog,
    prices: Mapping[str, Decimal] | None = None,
    *,
    zones: Iterable[str] | None = None,
    markets: Iterable[Market] = ("on-demand",),
) -> Choice | None:
    """Return the default types, for a request that says nothing; None if none can be had."""
    supply = Supply.of(catalog, prices, zones=zones, markets=markets)
    types = [catalog.types[name] for name in names if name in catalog.types and supply.has(name)]
    types = [one for one in types if supply.sells(one)]
    if not types:
        return None
    rule = "the default, since no hardware is requested: 4 cores and 16 GiB"
    return listed_choice(request, supply, types, rule, word="default")


def choose_scheduler(
    request: HardwareRequest,
    workers: Choice,
    catalog: Catalog,
    prices: Mapping[str, Decimal] | None = None,
    *,
    zones: Iterable[str] | None = None,
) -> Choice:
    """Choose the instance types for the scheduler of some workers.

    Where its own types aren't named, it has the workers' architecture unless ``arm`` says
    otherwise, and a GPU when they have one and nothing is said about its own, as far as there is
    one that meets the rest of the request.

    Raises `TerradaskError`.
    """
    if request.vm_types:
        return choose(request, catalog, prices, zones=zones)
    if request.arm is None and workers.architecture == "arm64":
        request = replace(request, arm=True)
    if request.gpu is not None or request.gpu_type is not None or not workers.has_gpus:
        return choose(request, catalog, prices, zones=zones)
    try:
        choice = choose(replace(request, gpu=1), catalog, prices, zones=zones)
        note = f"a GPU, since the workers have them; {request.option('gpu')}=False leaves it out"
    except NoMatchingType:
        choice = choose(request, catalog, prices, zones=zones)
        note = (
            "the workers have GPUs, but no type with a GPU meets this request: the scheduler has "
            "none"
        )
    return replace(choice, notes=(*choice.notes, note))


def _selected(request: HardwareRequest, supply: Supply) -> Choice:
    selection = select(request, supply)
    if not selection.types:
        raise no_match(request, supply, selection)
    attempt = selection.attempt
    unpriced = sum(one.name not in supply.prices for one in selection.types)
    notes = [attempt.note] if attempt.note is not None else []
    if unpriced == len(selection.types):
        notes.append("no price is known: the smaller types come first, then the newer")
    elif unpriced:
        notes.append(
            f"{unpriced} of {len(selection.types)} types have no known price: they come last, "
            "the smaller first"
        )
    return Choice(
        request=request,
        where=supply.where,
        architecture=attempt.constraints.architecture,
        rule=attempt.rule,
        types=_chosen(selection.types, supply),
        left_out=tuple(
            LeftOut(why.value, len(types), tuple(one.name for one in types[:_EXAMPLES]))
            for why, types in selection.rejections.items()
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


def _named(request: HardwareRequest, supply: Supply) -> Choice:
    types = named_types(request, supply)
    notes = []
    if request.gpu is not None and any(
        (one.gpus.count if one.gpus else 0) != request.gpu for one in types
    ):
        notes.append(
            f"{request.option('gpu')}={request.gpu} doesn't count: the named types have the GPUs "
            "that they have"
        )
    rule = "the types that are named, in their order"
    return listed_choice(request, supply, types, rule, word="named", notes=tuple(notes))
