"""An estimate: each resource's cost at its possible sizes. Pure; no price is guessed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal
from typing import Any

from terradask_modules.markets import Market

#: AWS bills months of 730 hours in its own calculator.
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
            "unit_hourly_usd": price_text(self.unit_hourly_usd),
            "desired_hourly_usd": price_text(self.desired_hourly_usd),
            "desired_monthly_usd": _monthly_text(self.desired_hourly_usd),
            "maximum_hourly_usd": price_text(self.maximum_hourly_usd),
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
            for span, text in (("hourly", price_text), ("monthly", _monthly_text))
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


def price_text(usd: Decimal | None) -> str | None:
    """Return the exact price as text, or None."""
    return None if usd is None else format(usd.normalize(), "f")


def _sum(prices: Iterable[Decimal | None]) -> Decimal:
    return sum((usd for usd in prices if usd is not None), Decimal())


def _monthly_text(hourly_usd: Decimal | None) -> str | None:
    return None if hourly_usd is None else str(monthly_usd(hourly_usd))
