"""Costs, for programs: estimates of plans, and costs of runs.

- `estimate` returns the `CostEstimate` of a plan's JSON, with the prices of an `AwsPriceList` and
  the instance types that `read_launches` reads from AWS; `to_text` shows it.
- `Workspace.costs` returns `RunCosts`, each `CostRow` with what a run or a cluster has cost.
"""

from __future__ import annotations

from decimal import Decimal

from terradask._catalog.prices.calculation import estimate
from terradask._catalog.prices.groups import read_launches
from terradask._catalog.prices.price_list import AwsPriceList
from terradask._catalog.prices.prices import CostEstimate, CostItem, monthly_usd
from terradask._common.text_table import columns
from terradask._observe.run_costs.totals import CostRow, RunCosts

__all__ = [
    "AwsPriceList",
    "CostEstimate",
    "CostRow",
    "RunCosts",
    "estimate",
    "read_launches",
    "to_text",
]

_HEADER = (
    "resource",
    "what",
    "desired",
    "maximum",
    "$ an hour",
    "$ a month",
    "$ a month at maximum",
)


def to_text(estimate: CostEstimate) -> str:
    """Return the estimate as lines of text, in columns."""
    rows = [_HEADER, *(_row(item) for item in estimate.items), *_totals(estimate)]
    return "\n".join([*columns(rows, numbers_from=2), "", *_remarks(estimate)])


def _row(item: CostItem) -> tuple[str, ...]:
    desired, maximum = item.desired_hourly_usd, item.maximum_hourly_usd
    missing = "no price" if item.counted or item.market else "by use"
    return (
        item.address,
        item.what if item.counted else f"({item.what})",
        str(item.desired),
        str(item.maximum),
        *(
            (_usd(desired), _monthly(desired), _monthly(maximum))
            if desired is not None and maximum is not None
            else (missing, "", "")
        ),
    )


def _totals(estimate: CostEstimate) -> list[tuple[str, ...]]:
    desired = estimate.desired_hourly_usd
    maximum = estimate.maximum_hourly_usd
    stopped = estimate.stopped_hourly_usd
    name = "total" if not estimate.unpriced else "total of what has a price"
    rows: list[tuple[str, ...]] = [
        (name, "", "", "", _usd(desired), _monthly(desired), _monthly(maximum))
    ]
    if stopped != desired:
        rows.append(
            ("while stopped", "", "", "", _usd(stopped), _monthly(stopped), _monthly(stopped))
        )
    return rows


def _remarks(estimate: CostEstimate) -> list[str]:
    day = f", {estimate.priced_at}" if estimate.priced_at else ""
    remarks = [
        (
            f"Prices: {estimate.source}{day}; {estimate.region}, USD, months of 730 hours. In "
            "brackets: not in the totals."
        )
    ]
    remarks += [f"No price: {item.address}, {item.what}: {item.note}" for item in estimate.unpriced]
    noted = [item for item in estimate.items if item.note and item not in estimate.unpriced]
    # The brackets already say what is there to compare.
    notes = dict.fromkeys(
        f"{item.what}: {item.note}"
        for item in noted
        if item.counted or item.unit_hourly_usd is None
    )
    return [*remarks, *estimate.notes, *notes]


def _usd(price: Decimal) -> str:
    return f"{price:.4f}"


def _monthly(price: Decimal) -> str:
    return f"{monthly_usd(price):,.2f}"
