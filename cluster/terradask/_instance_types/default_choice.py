"""The types where no hardware is requested: named, so that no catalog or price is needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

from terradask._instance_types.choice import Choice, listed_choice
from terradask._instance_types.model import Catalog
from terradask._instance_types.supply import Supply
from terradask_modules.markets import Market
from terradask_stacks.hardware.request import HardwareRequest


def choose_default(
    request: HardwareRequest,
    names: Iterable[str],
    catalog: Catalog,
    prices: Mapping[str, Decimal] | None = None,
    *,
    zones: Iterable[str] | None = None,
    markets: Iterable[Market] = ("on-demand",),
) -> Choice | None:
    """Return the default types, for a request that says nothing."""
    supply = Supply.of(catalog, prices, zones=zones, markets=markets)
    types = [catalog.types[name] for name in names if name in catalog.types and supply.has(name)]
    types = [one for one in types if supply.sells(one)]
    if not types:
        return None
    rule = "the default, since no hardware is requested: 4 cores and 16 GiB"
    return listed_choice(request, supply, types, rule, word="default")
