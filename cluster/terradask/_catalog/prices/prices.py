"""An estimate, keys of prices, the answers of a price list, and the priced parts of items. Pure; no
price is guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, Protocol

from terradask._common.dollars import exact_usd
from terradask_modules.markets import Market

#: AWS (believed): AWS's price calculator counts 730 hours a month.
HOURS_PER_MONTH = 730


@dataclass(frozen=True)
class CostItem:
    """The cost of one kind of item in one resource."""

    #: The resource's Terraform address.
    address: str
    #: What is priced, such as ``NAT gateway`` or ``m6i.xlarge (Linux, on-demand)``.
    what: str
    #: Hourly price of one in US dollars; None if the price list has none.
    unit_hourly_usd: Decimal | None = None
    #: The number at the desired size.
    desired: int = 1
    #: The largest number.
    maximum: int = 1
    #: ``on-demand`` or ``spot``, for instances.
    market: Market | None = None
    #: Parts that the price excludes, such as traffic by the GB, or why it is missing.
    note: str | None = None
    #: Whether it costs money while the cluster is stopped.
    while_stopped: bool = True
    #: Whether it is in the totals; others are for comparison, or charged by use.
    counted: bool = True
    #: Date of the price, UTC, in ISO 8601; None without one.
    priced_at: str | None = None

    @property
    def desired_hourly_usd(self) -> Decimal | None:
        """Price by the hour at the desired size; None where a price is missing."""
        return None if self.unit_hourly_usd is None else self.unit_hourly_usd * self.desired

    @property
    def maximum_hourly_usd(self) -> Decimal | None:
        """Price by the hour at the largest size; None where a price is missing."""
        return None if self.unit_hourly_usd is None else self.unit_hourly_usd * self.maximum

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON output; prices as text, by the month to the cent."""
        return {
            **asdict(self),
            "unit_hourly_usd": exact_usd(self.unit_hourly_usd),
            "desired_hourly_usd": exact_usd(self.desired_hourly_usd),
            "desired_monthly_usd": _monthly_text(self.desired_hourly_usd),
            "maximum_hourly_usd": exact_usd(self.maximum_hourly_usd),
            "maximum_monthly_usd": _monthly_text(self.maximum_hourly_usd),
        }


@dataclass(frozen=True)
class CostEstimate:
    """The cost of a stack.

    Parameters
    ----------
    region
        AWS region of the prices.
    source
        Source of the prices, such as ``AWS Price List API``.
    priced_at
        The date of the oldest price, in ISO 8601; empty without prices.
    items
        The cost of each resource.
    problem
        Why prices for the totals are missing; None if complete.
    notes
        Remarks, such as that prices are old because AWS didn't answer.
    """

    region: str
    source: str
    priced_at: str
    items: tuple[CostItem, ...] = field(default_factory=tuple)
    problem: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def unpriced(self) -> tuple[CostItem, ...]:
        """Unpriced items that belong in the totals: the stack costs more."""
        return tuple(item for item in self.items if item.counted and item.unit_hourly_usd is None)

    @property
    def has_no_price(self) -> bool:
        """Whether prices are missing and none was found, so that there are no totals."""
        return self.problem is not None and all(
            item.unit_hourly_usd is None for item in self._counted
        )

    @property
    def stopped_hourly_usd(self) -> Decimal:
        """Hourly cost while no cluster runs: the entire network, a cluster's secret."""
        return _sum(item.desired_hourly_usd for item in self._counted if item.while_stopped)

    @property
    def desired_hourly_usd(self) -> Decimal:
        """Hourly cost of all priced items at the desired sizes."""
        return _sum(item.desired_hourly_usd for item in self._counted)

    @property
    def maximum_hourly_usd(self) -> Decimal:
        """Hourly cost of all priced items at the largest sizes."""
        return _sum(item.maximum_hourly_usd for item in self._counted)

    def by_resource(self) -> dict[str, CostEstimate]:
        """Return each resource's part of the estimate, by address; the totals add up."""
        addresses = dict.fromkeys(item.address for item in self.items)
        return {
            address: replace(
                self, items=tuple(item for item in self.items if item.address == address)
            )
            for address in addresses
        }

    @property
    def _counted(self) -> tuple[CostItem, ...]:
        return tuple(item for item in self.items if item.counted)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON output; prices as text, by the month to the cent."""
        return {
            "region": self.region,
            "currency": "USD",
            "source": self.source,
            "priced_at": self.priced_at,
            "problem": self.problem,
            "notes": list(self.notes),
            **self.totals(),
            "unpriced": [f"{item.address}: {item.what}" for item in self.unpriced],
            "resources": {
                address: estimate.totals() for address, estimate in self.by_resource().items()
            },
            "items": [item.as_dict() for item in self.items],
        }

    def totals(self) -> dict[str, str | None]:
        """Return the totals alone for JSON output."""
        hourly = {
            "stopped": self.stopped_hourly_usd,
            "desired": self.desired_hourly_usd,
            "maximum": self.maximum_hourly_usd,
        }
        return {
            f"{name}_{span}_usd": text(price)
            for name, price in hourly.items()
            for span, text in (("hourly", exact_usd), ("monthly", _monthly_text))
        }


def together(estimates: Sequence[CostEstimate]) -> CostEstimate | None:
    """Return the total estimate of several stacks; None without any."""
    if len(estimates) < 2 or all(estimate.has_no_price for estimate in estimates):
        return None
    return CostEstimate(
        region=estimates[0].region,
        source=estimates[0].source,
        priced_at=min(
            (estimate.priced_at for estimate in estimates if estimate.priced_at), default=""
        ),
        items=tuple(item for estimate in estimates for item in estimate.items),
        problem="; ".join(
            dict.fromkeys(estimate.problem for estimate in estimates if estimate.problem)
        )
        or None,
    )


def monthly_usd(hourly_usd: Decimal) -> Decimal:
    """Return the monthly price for an hourly one, to the cent."""
    return (hourly_usd * HOURS_PER_MONTH).quantize(Decimal("0.01"))


def _sum(prices: Iterable[Decimal | None]) -> Decimal:
    return sum((usd for usd in prices if usd is not None), Decimal())


def _monthly_text(hourly_usd: Decimal | None) -> str | None:
    return None if hourly_usd is None else str(monthly_usd(hourly_usd))


# ---- prices --------------------------------------------------------------------------------------


Product = Literal[
    "instance",
    "nat-gateway",
    "public-ipv4",
    "interface-endpoint",
    "gp3-storage",
    "gp3-throughput",
    "gp3-iops",
    "snapshot-storage",
    "secret",
    "custom-metric",
]
Unit = Literal["hour", "month", "GB-month", "GiBps-month", "IOPS-month"]

#: AWS (documented): Prices in AWS's price list have ten digits behind the point.
#: https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_pricing_GetProducts.html
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
    #: most expensive counts. None: it is billed only by use.
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

#: AWS (gp3-performance)
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
