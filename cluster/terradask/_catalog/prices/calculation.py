"""Estimate the cost of a plan from a list of prices. Pure, except for the list's lookups.

An unknown type of resource never counts as free: it is listed without a price.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any

from terradask._catalog.prices.groups import (
    HostLaunch,
    PlannedResource,
    PlannedStack,
    TemplateVersion,
    group_components,
    planned_launch,
    template_of,
)
from terradask._catalog.prices.prices import (
    Component,
    CostEstimate,
    CostItem,
    Price,
    PriceKey,
    PriceList,
    Quotes,
)
from terradask._common.naming import some
from terradask_host.gauges import GAUGES
from terradask_modules.kinds import KINDS
from terradask_modules.kinds.kind import FREE

#: Number of missing prices with one reason to name; others are counted.
_NAMED = 3

#: Types that are free, or charged with their parent.
_FREE = frozenset(
    {
        "aws_vpc_dhcp_options",
        "aws_network_acl",
        "aws_default_network_acl",
        "aws_default_route_table",
        "aws_eip_association",
        "aws_autoscaling_schedule",
        "aws_autoscaling_lifecycle_hook",
        "aws_secretsmanager_secret_policy",
        "aws_cloudwatch_log_resource_policy",
        "aws_secretsmanager_secret_version",
        "terraform_data",
    }
)
_FREE_PREFIXES = (
    "aws_iam_",
    "aws_security_group",
    "aws_default_security_group",
    "aws_vpc_security_group_",
    "aws_vpc_endpoint_",
    "aws_s3_bucket_",
    "aws_vpc_ipv4_cidr_block_association",
    "aws_vpc_ipv6_cidr_block_association",
)


def estimate(
    document: Mapping[str, Any],
    prices: PriceList,
    *,
    region: str | None = None,
    hosts: Mapping[TemplateVersion, HostLaunch] | None = None,
) -> CostEstimate:
    """Estimate the cost of a stack after its plan is applied, or of a started cluster."""
    stack = PlannedStack.of(document)
    where = stack.region or region
    if where is None:
        return CostEstimate("", "", "", problem="the plan doesn't contain its region")
    listed = components(stack, where, hosts)
    quotes = prices.look_up(
        key for component in listed if not component.problem for key in component.keys
    )
    items = tuple(item for component in listed for item in _items(component, quotes))
    days = [item.priced_at[:10] for item in items if item.counted and item.priced_at]
    return CostEstimate(
        where, quotes.source, min(days, default=""), items, _problem(listed, quotes), quotes.notes
    )


def as_it_is(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return a plan's document in which the stack stays as it is, for its present cost; None if it
    doesn't contain the present state though it changes resources of it.
    """
    present = (document.get("prior_state") or {}).get("values")
    exists = any(each["change"].get("before") for each in document.get("resource_changes") or ())
    if present is None and exists:
        return None
    return {**document, "planned_values": present or {"root_module": {}}}


# ---- components with a price ---------------------------------------------------------------------


def components(
    stack: PlannedStack, region: str, hosts: Mapping[TemplateVersion, HostLaunch] | None = None
) -> list[Component]:
    """Return all components of a stack with a cost or an unknown price."""
    found: list[Component] = []
    for resource in sorted(stack.resources, key=lambda resource: resource.address):
        if resource.type == "aws_autoscaling_group":
            template = template_of(resource)
            launch = planned_launch(resource, stack) or (
                (hosts or {}).get(template) if template is not None else None
            )
            found.extend(group_components(resource, stack, region, launch))
        else:
            found.extend(_of(resource, region))
            if resource is stack.descriptor_resource:
                found.extend(_metrics(resource, stack, region))
    return found


def _metrics(resource: PlannedResource, stack: PlannedStack, region: str) -> Iterator[Component]:
    """Yield the cost of metrics, which a running cluster's host creates instead of Terraform."""
    if (stack.descriptor.get("scheduler") or {}).get("metrics") != "cloudwatch":
        return
    yield Component(
        address=resource.address,
        what="custom metric of CloudWatch",
        keys=(PriceKey("custom-metric", region),),
        desired=len(GAUGES),
        maximum=len(GAUGES),
        note="by the hours with a value; at the price of an account's first metrics, the highest",
        while_stopped=False,
    )


def _of(resource: PlannedResource, region: str) -> Iterator[Component]:
    price = KINDS[resource.type].price if resource.type in KINDS else None
    if resource.type == "aws_vpc_endpoint":
        yield from _endpoint(resource, region)
    elif price is None:
        if resource.type not in _FREE and not resource.type.startswith(_FREE_PREFIXES):
            yield Component(
                address=resource.address,
                what=resource.type,
                problem=f"no price is known for {resource.type}",
            )
    elif price.product is not None:
        keys = (PriceKey(price.product, region),)
        yield Component(address=resource.address, what=price.what, keys=keys, note=price.note)
    elif price != FREE:
        yield Component(
            address=resource.address,
            what=price.what,
            note=f"{price.note}; not in the totals",
            counted=False,
        )


def _endpoint(resource: PlannedResource, region: str) -> Iterator[Component]:
    kind = resource.values.get("vpc_endpoint_type") or "Gateway"
    if kind == "Gateway":
        return
    zones = resource.number_of("subnet_ids") if kind == "Interface" else None
    yield Component(
        address=resource.address,
        what=f"{kind.lower()} endpoint in a zone",
        keys=(PriceKey("interface-endpoint", region),) if zones else (),
        desired=zones or 1,
        maximum=zones or 1,
        note="and each GB that goes through it",
        problem=None
        if zones
        else f"no price is known for a {kind} endpoint in an unknown number of zones",
    )


# ---- their prices --------------------------------------------------------------------------------


def _items(component: Component, quotes: Quotes) -> Iterator[CostItem]:
    missing = [key for key in component.keys if key not in quotes.prices]
    if component.problem or missing or not component.keys:
        # The most expensive type is unknown while one has no price.
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
    """Return why these have no price, without duplicates."""
    reasons: dict[str, list[str]] = {}
    for key in missing:
        reasons.setdefault(quotes.problems.get(key, "not found"), []).append(str(key))
    return (
        "; ".join(f"no price of {some(keys, _NAMED)}: {reason}" for reason, keys in reasons.items())
        or None
    )


def _problem(listed: Iterable[Component], quotes: Quotes) -> str | None:
    counted = [component for component in listed if component.counted]
    keys = dict.fromkeys(key for each in counted if not each.problem for key in each.keys)
    missing = [key for key in keys if key not in quotes.prices]
    reasons = dict.fromkeys(
        component.problem or (None if component.keys else component.note) for component in counted
    )
    return "; ".join(filter(None, (_why(missing, quotes), *reasons))) or None
