"""An estimate: what each resource costs at its possible sizes. Pure; no price is guessed."""

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
    """What one kind of thing in one resource costs."""

    #: The resource, as Terraform names it.
    address: str
    #: What is priced, such as ``NAT gateway`` or ``m6i.xlarge (Linux, on-demand)``.
    what: str
    #: Price of one by the hour, in US dollars; None where the price list has none.
    unit_hourly_usd: Decimal | None = None
    #: How many there are at the desired size.
    desired: int = 1
    #: How many there can be.
    maximum: int = 1
    #: ``on-demand`` or ``spot``, for instances.
    market: Market | None = None
    #: What isn't in the price, such as traffic by the GB, or why there is none.
    note: str | None = None
    #: Whether it costs while the cluster is stopped as well.
    while_stopped: bool = True
    #: Whether it is in the totals; what isn't is there to compare, or costs by its use alone.
    counted: bool = True
    #: When AWS named the price, UTC, in ISO 8601; None where there is none.
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
    """What a stack costs.

    Parameters
    ----------
    region
        AWS region of the prices.
    source
        Where the prices come from, such as ``AWS Price List API``.
    priced_at
        The day of the oldest price, in ISO 8601; empty where no price was found.
    items
        What each resource costs.
    problem
        Why prices are missing that the totals need; None where they have them all.
    notes
        What a reader has to know, such as that prices are old because AWS didn't answer.
    """

    region: str
    source: str
    priced_at: str
    items: tuple[CostItem, ...] = field(default_factory=tuple)
    problem: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def unpriced(self) -> tuple[CostItem, ...]:
        """What should be in the totals and has no price: the stack costs more than they say."""
        return tuple(item for item in self.items if item.counted and item.unit_hourly_usd is None)

    @property
    def has_no_price(self) -> bool:
        """Whether prices are missing and none was found: there are no totals to show."""
        return self.problem is not None and all(
            item.unit_hourly_usd is None for item in self._counted
        )

    @property
    def stopped_hourly_usd(self) -> Decimal:
        """What is paid by the hour while no cluster runs: all of a network, a cluster's secret."""
        return _sum(item.desired_hourly_usd for item in self._counted if item.while_stopped)

    @property
    def desired_hourly_usd(self) -> Decimal:
        """All priced items by the hour, at the desired sizes."""
        return _sum(item.desired_hourly_usd for item in self._counted)

    @property
    def maximum_hourly_usd(self) -> Decimal:
        """All priced items by the hour, at the largest sizes."""
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
    """Return what several stacks cost together; None where there is nothing to add up."""
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
    """Return the price by the month for one by the hour, to the cent."""
    return (hourly_usd * HOURS_PER_MONTH).quantize(Decimal("0.01"))


def price_text(usd: Decimal | None) -> str | None:
    """Return a price as text, exactly; None where there is none."""
    return None if usd is None else format(usd.normalize(), "f")


def _sum(prices: Iterable[Decimal | None]) -> Decimal:
    return sum((usd for usd in prices if usd is not None), Decimal())


def _monthly_text(hourly_usd: Decimal | None) -> str | None:
    return None if hourly_usd is None else str(monthly_usd(hourly_usd))
