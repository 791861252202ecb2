"""Keys of prices, the answers of a price list, and the priced parts of items. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, Protocol

from terradask._catalog.prices.estimate import HOURS_PER_MONTH, CostItem
from terradask_modules.markets import Market

Product = Literal[
    "instance",
    "nat-gateway",
    "public-ipv4",
    "interface-endpoint",
    "gp3-storage",
    "gp3-throughput",
    "gp3-iops",
    "secret",
    "custom-metric",
]
Unit = Literal["hour", "month", "GB-month", "GiBps-month", "IOPS-month"]

#: AWS's own price lists have ten digits behind the point.
SMALLEST_USD = Decimal("1E-10")


@dataclass(frozen=True)
class PriceKey:
    """The key of a price."""

    #: The kind of item; instances run Linux, on shared hardware.
    product: Product
    region: str
    #: Such as ``m6i.xlarge``, for instances; None for those of all types of the region.
    instance_type: str | None = None
    market: Market | None = None
    #: Availability zone, for Spot instances, whose prices differ by zone.
    zone: str | None = None

    @property
    def where(self) -> str:
        """The place of the price: a zone, or the region."""
        return self.zone or self.region

    @property
    def what(self) -> str:
        """The priced item: an instance type, or a product."""
        return self.instance_type or self.product

    @property
    def is_of_all_types(self) -> bool:
        """Whether it means the prices of all instance types."""
        return self.what == "instance"

    def __str__(self) -> str:
        parts = (self.product, self.instance_type, self.market, self.where)
        return " ".join(part for part in parts if part)


@dataclass(frozen=True, kw_only=True)
class Component(CostItem):
    """A cost item before pricing."""

    #: Keys of its price. Several are alternatives, such as a group's instance types, of which the
    #: most expensive counts. None: AWS charges only by use.
    keys: tuple[PriceKey, ...] = ()
    #: Amount of it: for a volume GiB, MiB/s and IOPS, otherwise one.
    amount: Decimal = Decimal(1)
    #: Why it can't be priced, if so.
    problem: str | None = None


@dataclass(frozen=True)
class Price:
    """A price in AWS's list."""

    #: The price of one unit, in US dollars.
    usd: Decimal
    per: Unit
    #: Time of AWS's answer, UTC, in ISO 8601.
    as_of: str

    def hourly_usd(self, amount: Decimal = Decimal(1)) -> Decimal:
        """Return the price by the hour, to ten digits behind the point; a month has 730 hours."""
        usd = self.usd * amount
        return (usd if self.per == "hour" else usd / HOURS_PER_MONTH).quantize(SMALLEST_USD)


@dataclass(frozen=True)
class Quotes:
    """The answers of a price list."""

    #: Source of the prices, such as ``AWS Price List API``.
    source: str
    prices: Mapping[PriceKey, Price] = field(default_factory=dict)
    #: The reason for each missing price.
    problems: Mapping[PriceKey, str] = field(default_factory=dict)
    #: Remarks, such as that prices are old because AWS didn't answer.
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class PriceSheet:
    """AWS's answer for a key: its hourly price, or those of all instance types of a region."""

    market: Market | None
    #: Place -> type or product -> price in US dollars. Spot prices differ by zone, others by
    #: region. Missing if AWS lists no price, or several.
    usd: Mapping[str, Mapping[str, Decimal]]
    #: Source of the prices, such as ``AWS Price List API``.
    source: str
    #: Time of AWS's answer, UTC; None without prices.
    as_of: datetime | None = None
    #: Why prices are missing or not newer; None if complete.
    problem: str | None = None


class PriceList(Protocol):
    """A source of prices."""

    def look_up(self, keys: Iterable[PriceKey]) -> Quotes:
        """Return a price, or the reason for its absence, for every key. Never raises for one."""
        ...


# ---- the priced parts of instances, volumes, addresses and secrets, by the hour ------------------


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
