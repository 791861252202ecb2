"""From a plan and a list of prices to an estimate. Pure but for what the list does to answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from terradask._common.naming import some
from terradask._pricing.component import Component
from terradask._pricing.components import components
from terradask._pricing.estimate import CostEstimate, CostItem
from terradask._pricing.groups import HostLaunch, TemplateVersion
from terradask._pricing.plan_resources import PlannedStack
from terradask._pricing.prices import PriceKey, PriceList, Quotes

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
        yield _item(component, dearest, quotes)
        return
    yield _item(
        component,
        dearest,
        quotes,
        what=_named(dearest, f"the dearest of {len(component.keys)} types"),
    )
    if quotes.prices[cheapest].usd != quotes.prices[dearest].usd:
        note = "to compare; not in the totals"
        yield _item(
            component,
            cheapest,
            quotes,
            what=_named(cheapest, "the cheapest"),
            note=note,
            counted=False,
        )


def _item(
    component: Component,
    key: PriceKey | None = None,
    quotes: Quotes | None = None,
    *,
    what: str | None = None,
    note: str | None = None,
    counted: bool = True,
) -> CostItem:
    price = quotes.prices[key] if quotes is not None and key is not None else None
    return CostItem(
        address=component.address,
        what=what or component.what,
        unit_hourly_usd=None if price is None else price.hourly_usd(component.amount),
        desired=component.desired,
        maximum=component.maximum,
        market=component.market,
        note=note or component.note,
        while_stopped=component.while_stopped,
        counted=counted and component.counted,
        priced_at=None if price is None else price.as_of,
    )


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
