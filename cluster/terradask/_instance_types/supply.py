"""What can be had: a region's types, their prices, and the zones and markets that count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

from terradask._instance_types.model import Catalog, InstanceType
from terradask.errors import InvalidInput
from terradask_modules.markets import Market


@dataclass(frozen=True)
class Supply:
    """What can be had. Made by `Supply.of`."""

    catalog: Catalog
    #: US dollars by the hour, on demand, by type's name; a missing type has no known price.
    prices: Mapping[str, Decimal]
    #: Zones one of which has to offer a type. Empty: any in the region.
    zones: tuple[str, ...]
    #: Where a type has to be for sale.
    markets: frozenset[Market]
    #: Names of the types that are offered in `zones`; None where these are empty.
    offered: frozenset[str] | None

    @classmethod
    def of(
        cls,
        catalog: Catalog,
        prices: Mapping[str, Decimal] | None = None,
        *,
        zones: Iterable[str] | None = None,
        markets: Iterable[Market] = ("on-demand",),
    ) -> Supply:
        """Put it together. Raises `InvalidInput`."""
        wanted = tuple(zones or ())
        unknown = [zone for zone in wanted if zone not in catalog.zones]
        if unknown:
            raise InvalidInput(
                f"{catalog.region} has no such zone for this account",
                given=", ".join(unknown),
                allowed=", ".join(sorted(catalog.zones)),
                advice="choose one of these",
            )
        offered = frozenset().union(*(catalog.zones[zone] for zone in wanted)) if wanted else None
        return cls(catalog, prices or {}, wanted, frozenset(markets), offered)

    @cached_property
    def ranked(self) -> tuple[InstanceType, ...]:
        """The region's types in their order."""
        return tuple(sorted(self.catalog.types.values(), key=self.rank))

    @property
    def where(self) -> str:
        """Where it is, for people: the zones, or the region."""
        *others, last = self.zones or (self.catalog.region,)
        return f"{', '.join(others)} or {last}" if others else last

    @property
    def how(self) -> str:
        """How types have to be for sale, for people: ``on demand``, ``on spot``, or both."""
        return " and ".join(
            "on demand" if market == "on-demand" else "on spot" for market in sorted(self.markets)
        )

    def has(self, name: str) -> bool:
        """Return whether a type is offered in the zones."""
        return self.offered is None or name in self.offered

    def sells(self, one: InstanceType) -> bool:
        """Return whether a type is for sale on every market that counts."""
        return (one.on_demand or "on-demand" not in self.markets) and (
            one.spot or "spot" not in self.markets
        )

    def rank(self, one: InstanceType) -> tuple[bool, Decimal, int, int, int, str]:
        """Return the order of types: price, newer generation, name; at last those unpriced."""
        price = self.prices.get(one.name)
        if price is None:
            return (True, Decimal(), one.vcpus, one.memory_mib, -one.generation, one.name)
        return (False, price, 0, 0, -one.generation, one.name)
