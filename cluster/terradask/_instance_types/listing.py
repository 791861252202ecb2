"""Instance types with their zones and prices, for people to look through."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from terradask._instance_types.catalog import load_catalog
from terradask._instance_types.constraints import known_gpu
from terradask._instance_types.model import Catalog, InstanceType
from terradask._instance_types.supply import Supply
from terradask._pricing.price_list import AwsPriceList

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask._instance_types.filters import TypeFilter
    from terradask._pricing.prices import PriceSheet
    from terradask_modules.markets import Market


@dataclass(frozen=True, slots=True)
class PricedInstanceType(InstanceType):
    """An instance type with its prices: Linux, on shared hardware. It has all that `InstanceType`
    has besides.

    Parameters
    ----------
    zones
        Availability zones in which AWS offers it.
    hourly_usd
        Price of an hour on demand, in US dollars, as AWS names it; None where AWS names none.
    spot_hourly_usd
        Zone -> price of an hour on spot now, in US dollars, where AWS names one. Empty where spot
        prices weren't asked for.
    """

    zones: tuple[str, ...] = ()
    hourly_usd: Decimal | None = None
    spot_hourly_usd: Mapping[str, Decimal] = field(default_factory=dict, hash=False)

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON: prices as text, digits as AWS writes them."""
        return {
            **dataclasses.asdict(self),
            "memory_gib": self.memory_gib,
            "hourly_usd": _text(self.hourly_usd),
            "spot_hourly_usd": {zone: _text(usd) for zone, usd in self.spot_hourly_usd.items()},
        }


@dataclass(frozen=True)
class Listing:
    """Instance types that were looked for."""

    #: The types: cheapest on demand first, those without a price last.
    types: tuple[PricedInstanceType, ...]
    catalog: Catalog
    #: Where the prices come from: on demand, and spot where that was asked for.
    prices: tuple[PriceSheet, ...]


def find_types(
    aws: Aws,
    wanted: TypeFilter,
    *,
    zone: str | None = None,
    spot: bool = False,
    refresh: bool = False,
) -> Listing:
    """Look for instance types in a region. Raises `InvalidInput`, `AwsError`."""
    catalog = load_catalog(aws, refresh=refresh)
    supply = Supply.of(catalog, zones=[zone] if zone else None)
    if wanted.gpu_model is not None:
        known_gpu("gpu_type", wanted.gpu_model, catalog)
    prices = AwsPriceList(aws)
    markets: tuple[Market, ...] = ("on-demand", "spot") if spot else ("on-demand",)
    sheets = [prices.of_region(market, refresh=refresh) for market in markets]
    found = (one for one in catalog.types.values() if supply.has(one.name) and wanted.matches(one))
    return Listing(tuple(price_types(found, catalog, sheets, zone=zone)), catalog, tuple(sheets))


def price_types(
    types: Iterable[InstanceType],
    catalog: Catalog,
    sheets: Iterable[PriceSheet],
    *,
    zone: str | None = None,
) -> list[PricedInstanceType]:
    """Put prices to types, and sort them."""
    usd = {sheet.market: sheet.usd for sheet in sheets}
    on_demand = usd.get("on-demand", {}).get(catalog.region, {})
    spot = {
        where: prices
        for where, prices in sorted(usd.get("spot", {}).items())
        if zone in (None, where)
    }
    priced = [
        PricedInstanceType(
            **{each.name: getattr(one, each.name) for each in dataclasses.fields(InstanceType)},
            zones=catalog.zones_with(one.name),
            hourly_usd=on_demand.get(one.name),
            spot_hourly_usd={
                where: prices[one.name] for where, prices in spot.items() if one.name in prices
            },
        )
        for one in types
    ]
    return sorted(priced, key=Supply.of(catalog, on_demand).rank)


def _text(usd: Decimal | None) -> str | None:
    return None if usd is None else format(usd, "f")
