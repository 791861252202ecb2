"""What a price is asked for by, and what a list of prices answers. Pure data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Literal, Protocol

from terradask._pricing.estimate import HOURS_PER_MONTH, CostItem
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
    """What a price is asked for."""

    #: The kind of thing; instances run Linux, on shared hardware.
    product: Product
    region: str
    #: Such as ``m6i.xlarge``, for instances.
    instance_type: str | None = None
    market: Market | None = None
    #: Availability zone, for instances on spot: each zone has its price.
    zone: str | None = None

    def __str__(self) -> str:
        parts = (self.product, self.instance_type, self.market, self.zone or self.region)
        return " ".join(part for part in parts if part)


@dataclass(frozen=True, kw_only=True)
class Component(CostItem):
    """A cost item that has no price yet."""

    #: What to ask the price of. Several are alternatives, such as a group's instance types: the
    #: dearest counts. None at all: AWS prices it by its use alone.
    keys: tuple[PriceKey, ...] = ()
    #: How much of it one has: of a volume GiB, GiB/s and IOPS, otherwise one.
    amount: Decimal = Decimal(1)
    #: Why it can't be priced at all, if so.
    problem: str | None = None


@dataclass(frozen=True)
class Price:
    """A price, as AWS lists it."""

    #: The price of one unit, in US dollars.
    usd: Decimal
    per: Unit
    #: When AWS said so, UTC, in ISO 8601.
    as_of: str

    @property
    def time(self) -> datetime:
        """When AWS said so."""
        return datetime.fromisoformat(self.as_of)

    def hourly_usd(self, amount: Decimal = Decimal(1)) -> Decimal:
        """Return the price by the hour, to ten digits behind the point; a month has 730 hours."""
        usd = self.usd * amount
        return (usd if self.per == "hour" else usd / HOURS_PER_MONTH).quantize(SMALLEST_USD)


@dataclass(frozen=True)
class Quotes:
    """What a list of prices answers."""

    #: Whose prices these are, such as ``AWS Price List API``.
    source: str
    prices: Mapping[PriceKey, Price] = field(default_factory=dict)
    #: For every other key, why there is no price.
    problems: Mapping[PriceKey, str] = field(default_factory=dict)
    #: What a reader has to know, such as that prices are old because AWS didn't answer.
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class PriceSheet:
    """What all instance types of a region cost by the hour: Linux, on shared hardware."""

    market: Market
    #: Where -> type -> price in US dollars. The one place on demand is the region; spot has a price
    #: for each zone. What AWS names no price for, or several, is missing.
    usd: Mapping[str, Mapping[str, Decimal]]
    #: Whose prices these are, such as ``AWS Price List API``.
    source: str
    #: When AWS said so, UTC; None where there are no prices.
    as_of: datetime | None = None
    #: Why there are no prices, or none that are newer; None where all is well.
    problem: str | None = None


class PriceList(Protocol):
    """Something that knows prices."""

    def look_up(self, keys: Iterable[PriceKey]) -> Quotes:
        """Return a price, or why there is none, for every key. Never raises for want of a price."""
        ...
