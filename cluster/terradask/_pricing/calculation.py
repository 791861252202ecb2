"""From a plan and a list of prices to an estimate. Pure but for what the list does to answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any

from terradask._common.naming import some
from terradask._pricing.components import components
from terradask._pricing.estimate import CostEstimate, CostItem
from terradask._pricing.groups import HostLaunch, TemplateVersion
from terradask._pricing.plan_resources import PlannedStack
from terradask._pricing.prices import Component, Price, PriceKey, PriceList, Quotes

#: As many prices that are missing for one reason are named before the rest is counted.
_NAMED = 3


def estimate(
    document: Mapping[str, Any],
    prices: PriceList,
    *,
    region: str | None = None,
    hosts: Mapping[TemplateVersion, HostLaunch] | None = None,
) -> CostEstimate:
    """Estimate what a stack costs once its plan is applied, or a cluster's once started."""
    stack = PlannedStack.of(document)
    where = stack.region or region
    if where is None:
        return CostEstimate("", "", "", problem="the plan doesn't say in which region it is")
    listed = components(stack, where, hosts)
    keys = dict.fromkeys(
        key for component in listed if not component.problem for key in component.keys
    )
    quotes = prices.look_up(keys)
    items = tuple(item for component in listed for item in _items(component, quotes))
    days = [item.priced_at[:10] for item in items if item.counted and item.priced_at]
    return CostEstimate(
        where, quotes.source, min(days, default=""), items, _problem(listed, quotes), quotes.notes
    )


def _items(component: Component, quotes: Quotes) -> Iterator[CostItem]:
    missing = [key for key in component.keys if key not in quotes.prices]
    if component.problem or missing or not component.keys:
        # The dearest of several is unknown while one of them has no price.
        yield _item(component, note=component.problem or _why(missing, quotes) or component.note)
        return
    cheapest = min(component.keys, key=lambda key: quotes.prices[key].usd)
    dearest = max(component.keys, key=lambda key: quotes.prices[key].usd)
    if len(component.keys) == 1:
        yield _priced(component, quotes.prices[dearest])
        return
    what = _named(dearest, f"the dearest of {len(component.keys)} types")
    yield _priced(component, quotes.prices[dearest], what=what)
    if quotes.prices[cheapest].usd != quotes.prices[dearest].usd:
        what, note = _named(cheapest, "the cheapest"), "to compare; not in the totals"
        yield _priced(component, quotes.prices[cheapest], what=what, note=note, counted=False)


def _priced(component: Component, price: Price, **changes: Any) -> CostItem:
    usd = price.hourly_usd(component.amount)
    return _item(component, unit_hourly_usd=usd, priced_at=price.as_of, **changes)


def _item(component: Component, **changes: Any) -> CostItem:
    known = {each.name: getattr(component, each.name) for each in fields(CostItem)}
    return CostItem(**known | changes)


def _named(key: PriceKey, which: str) -> str:
    return f"{key.instance_type} (Linux, {key.market}), {which}"


def _why(missing: list[PriceKey], quotes: Quotes) -> str | None:
    """Return why these have no price, each reason once."""
    reasons: dict[str, list[str]] = {}
    for key in missing:
        reasons.setdefault(quotes.problems.get(key, "not found"), []).append(str(key))
    return (
        "; ".join(f"no price of {some(keys, _NAMED)}: {reason}" for reason, keys in reasons.items())
        or None
    )


def _problem(listed: Iterable[Component], quotes: Quotes) -> str | None:
    counted = [component for component in listed if component.counted]
    missing = [
        key
        for component in counted
        if not component.problem
        for key in component.keys
        if key not in quotes.prices
    ]
    reasons = dict.fromkeys(
        component.problem or (None if component.keys else component.note) for component in counted
    )
    return "; ".join(filter(None, (_why(list(dict.fromkeys(missing)), quotes), *reasons))) or None
