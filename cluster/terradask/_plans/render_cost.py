"""Render what a plan costs as Markdown: the difference first, then each resource."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING

from terradask._catalog.prices.prices import HOURS_PER_MONTH, CostEstimate, CostItem
from terradask._plans.markdown import code, escaped, row, small, table
from terradask._plans.render_terminal import cost_origin, price
from terradask._plans.report import PlanReport, cost_before

if TYPE_CHECKING:
    from terradask._plans.report import WorkspaceReport

#: From this price on, cents only distract.
_WHOLE_FROM_USD = 1000
_HEADS = ("item", "a month", "at most")


def changed_cost(shown: PlanReport | WorkspaceReport) -> str | None:
    """Return the cost in US dollars a month, before and after, where it changes; None if
    nothing does.
    """
    cost = shown.cost
    before = shown.cost_before if isinstance(shown, PlanReport) else cost_before(shown.plans)
    if cost is None or (before is not None and before.totals() == cost.totals()):
        return None
    if cost.has_no_price:
        return f"no prices: {escaped(cost.problem or '')}"
    desired, most, idle = (
        _difference(getattr(before, name, None), getattr(cost, name))
        for name in ("desired_hourly_usd", "maximum_hourly_usd", "stopped_hourly_usd")
    )
    # What a stack costs while stopped matters if it is there already.
    exists = before is not None and before.stopped_hourly_usd
    number = len(cost.unpriced)
    parts = (
        f"{desired} a month" if desired else "",
        f"at most {most}{'' if desired else ' a month'}" if most and most != desired else "",
        f"while stopped {idle}" if exists and idle and idle != desired else "",
        f"{number} without a price and not in the total" if number else "",
    )
    return ", ".join(filter(None, parts)) or None


def _difference(before: Decimal | None, after: Decimal) -> str:
    """Return ``before → after`` by the month; empty if they are the same."""
    if before is None:
        return _rounded(after)
    if price(before * HOURS_PER_MONTH) == price(after * HOURS_PER_MONTH):
        return ""
    sign = "+" if after > before else "-"
    more = f" ({sign}{_rounded(abs(after - before))})" if before else ""
    return f"{_rounded(before)} → {_rounded(after)}{more}"


def _rounded(hourly: Decimal) -> str:
    """Return the price of a month, of a thousand dollars or more without cents."""
    month = hourly * HOURS_PER_MONTH
    return escaped(price(month, digits=0 if month >= _WHOLE_FROM_USD else 2))


def cost_details(plan: PlanReport) -> str:
    """Return one stack's whole table, a row for each item, and where its prices are from."""
    cost = plan.cost
    if cost is None or cost.has_no_price:
        return f"no prices: {escaped(cost.problem or '')}\n\n" if cost else ""
    number = len(cost.unpriced)
    missing = f"; {number} without a price and not in the total" if number else ""
    rows = [*map(_item, cost.items), *_totals(cost)]
    return f"{table(_HEADS, rows)}\n{small(f'{escaped(cost_origin(cost))}{missing}')}\n\n"


def _item(item: CostItem) -> str:
    note = f"<br>{small(escaped(item.note))}" if item.note else ""
    # Few columns and no long word, for a phone; the type is clear from what it is.
    name = item.address.partition(".")[2] or item.address
    what = f"{code(name)}<br>{escaped(item.what)}{note}"
    each = f"{price(item.unit_hourly_usd, digits=4)} an hour"
    sizes = ((item.desired, item.desired_hourly_usd), (item.maximum, item.maximum_hourly_usd))
    cells = ["-" if usd is None else _cell(usd, number, each) for number, usd in sizes]
    return row([what, *cells])


def _cell(hourly: Decimal, number: int, each: str) -> str:
    by_the_hour = each if number == 1 else f"{number} × {each}"
    return f"{_monthly(hourly)}<br>{small(escaped(by_the_hour))}"


def _monthly(hourly: Decimal) -> str:
    return escaped(price(hourly * HOURS_PER_MONTH))


def _totals(cost: CostEstimate) -> Iterator[str]:
    hourly = (cost.stopped_hourly_usd, cost.desired_hourly_usd, cost.maximum_hourly_usd)
    stopped, desired, most = map(_monthly, hourly)
    yield row(["**total**", f"**{desired}**", f"**{most}**"])
    if cost.stopped_hourly_usd != cost.desired_hourly_usd:
        yield row(["while stopped", stopped, stopped])
