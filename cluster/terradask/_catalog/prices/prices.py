"""Keys of prices, and the answers of a price list. Pure data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Literal, Protocol

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
