"""List the priced parts of instances, volumes, addresses and secrets, by the hour. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from terradask._catalog.prices.prices import PriceKey, Product, Quotes
from terradask_modules.markets import Market

#: Priced parts of an item with their amounts; None if unknown.
Parts = tuple[tuple[PriceKey, Decimal], ...] | None

_ONE = Decimal(1)

#: gp3's included performance: https://aws.amazon.com/ebs/pricing
_FREE_IOPS, _FREE_MIBPS = 3000, 125
_MIBPS_OF_A_GIBPS = 1024


@dataclass(frozen=True)
class Volumes:
    """A total of gp3 volumes."""

    gib: int = 0
    #: Throughput above the included one.
    mibps: int = 0
    #: IOPS above the included ones.
    iops: int = 0

    def __add__(self, other: Volumes) -> Volumes:
        return Volumes(self.gib + other.gib, self.mibps + other.mibps, self.iops + other.iops)

    def parts(self, region: str) -> tuple[tuple[PriceKey, Decimal], ...]:
        """Return the priced parts."""
        amounts: dict[Product, Decimal] = {
            "gp3-storage": Decimal(self.gib),
            "gp3-throughput": Decimal(self.mibps) / _MIBPS_OF_A_GIBPS,
            "gp3-iops": Decimal(self.iops),
        }
        return tuple(
            (PriceKey(product, region), amount) for product, amount in amounts.items() if amount
        )


def gp3_volume(gib: int, described: Mapping[str, Any]) -> Volumes:
    """Return one volume from EC2's description, which may omit throughput and IOPS."""
    return Volumes(
        int(gib),
        max((described.get("Throughput") or 0) - _FREE_MIBPS, 0),
        max((described.get("Iops") or 0) - _FREE_IOPS, 0),
    )


@dataclass(frozen=True)
class RunningHost:
    """The facts that determine an instance's price."""

    instance_type: str
    market: Market
    #: Its availability zone, which determines Spot prices.
    zone: str | None
    has_public_address: bool
    #: Total of its gp3 volumes; None if unknown.
    volumes: Volumes | None


def parts_of_host(host: RunningHost, region: str, *, is_on: bool = True) -> Parts:
    """Return the priced parts of an instance; of a stopped one, its volumes."""
    if host.volumes is None:
        return None
    if not is_on:
        return host.volumes.parts(region)
    zone = host.zone if host.market == "spot" else None
    return (
        (PriceKey("instance", region, host.instance_type, host.market, zone), _ONE),
        *host.volumes.parts(region),
        *([(PriceKey("public-ipv4", region), _ONE)] if host.has_public_address else []),
    )


def parts_of_secret(region: str) -> Parts:
    """Return the priced parts of a secret."""
    return ((PriceKey("secret", region), _ONE),)


def price_keys(parts: Iterable[Parts]) -> list[PriceKey]:
    """Return the keys of all prices, without duplicates."""
    return list(dict.fromkeys(key for each in parts if each is not None for key, _ in each))


def hourly_usd(parts: Iterable[Parts], quotes: Quotes) -> Decimal | None:
    """Return the hourly cost in US dollars; None if any price is unknown."""
    total = Decimal(0)
    for each in parts:
        if each is None or any(key not in quotes.prices for key, _ in each):
            return None
        total += sum((quotes.prices[key].hourly_usd(amount) for key, amount in each), Decimal(0))
    return total
