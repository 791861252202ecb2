"""What a price is asked for by, and what a list of prices answers. Pure data."""

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
    """What a price is asked for."""

    #: The kind of thing; instances run Linux, on shared hardware.
    product: Product
    region: str
    #: Such as ``m6i.xlarge``, for instances; None for those of all types of the region.
    instance_type: str | None = None
    market: Market | None = None
    #: Availability zone, for instances on spot: each zone has its price.
    zone: str | None = None

    @property
    def where(self) -> str:
        """Where that price holds: in a zone, or in all of the region."""
        return self.zone or self.region

    @property
    def what(self) -> str:
        """What it is the price of: a type of instance, or a product."""
        return self.instance_type or self.product

    @property
    def is_of_all_types(self) -> bool:
        """Whether the prices of all instance types are asked for."""
        return self.what == "instance"

    def __str__(self) -> str:
        parts = (self.product, self.instance_type, self.market, self.where)
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
    """What AWS has answered for a key: its price, or those of all instance types of a region, by
    the hour.
    """

    market: Market | None
    #: Where -> type or product -> price in US dollars. Spot has a price for each zone, all else the
    #: region's. What AWS names no price for, or several, is missing.
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
