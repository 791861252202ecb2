"""Query AWS's price list for products, and read its answers. Pure.

Queries filter by ``regionCode``, and the prefix of a usage type is skipped here.

AWS (believed, price-usage-types): AWS's price list has the usage types ``BoxUsage``,
``NatGateway-Hours``, ``EBS:VolumeUsage.gp3``, ``EBS:VolumeP-Throughput.gp3``,
``EBS:VolumeP-IOPS.gp3`` and ``EBS:SnapshotUsage`` of ``AmazonEC2``, ``PublicIPv4:InUseAddress`` and
``VpcEndpoint-Hours`` of ``AmazonVPC``, ``AWSSecretsManager-Secrets``, and
``CW:MetricMonitorUsage`` of ``AmazonCloudWatch``, with a region's prefix (``USE1-``), in us-east-1
not always.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Any

from terradask._catalog.prices.prices import PriceKey, Product, Unit
from terradask._common.dollars import exact_usd

_UNITS: Mapping[str, Unit] = {
    "hrs": "hour",
    "hours": "hour",
    "gb-mo": "GB-month",
    "gibps-mo": "GiBps-month",
    "iops-mo": "IOPS-month",
    "secrets": "month",
    "metrics": "month",
}


@dataclass(frozen=True)
class ProductQuery:
    """A query of the price list."""

    #: AWS's code of the service, such as ``AmazonEC2``.
    service: str
    #: Field -> required value.
    filters: Mapping[str, str]
    #: The required usage type, without a region's prefix: AWS can't filter by it.
    usage_type: str
    #: The required unit of the price.
    per: Unit
    #: Whether the price falls with the account's use, which isn't known here. The first step counts
    #: then, the most expensive one.
    falls: bool = False


@dataclass(frozen=True)
class Reading:
    """A price in an answer, or the reason for its absence."""

    usd: Decimal | None = None
    problem: str | None = None


#: AWS's answer: place -> type or product -> price.
Answer = Mapping[str, Mapping[str, Reading]]

#: Exceptions from an answer in another format.
_MALFORMED = (ValueError, KeyError, TypeError, AttributeError, InvalidOperation)


#: Product -> its query, without the region.
_QUERIES: Mapping[Product, ProductQuery] = {
    # Without the last two filters, the answer includes reservations and capacity blocks.
    "instance": ProductQuery(
        "AmazonEC2",
        {
            "operatingSystem": "Linux",
            "preInstalledSw": "NA",
            "tenancy": "Shared",
            "capacitystatus": "Used",
            "marketoption": "OnDemand",
        },
        "BoxUsage",
        "hour",
    ),
    "nat-gateway": ProductQuery(
        "AmazonEC2", {"productFamily": "NAT Gateway"}, "NatGateway-Hours", "hour"
    ),
    "gp3-storage": ProductQuery(
        "AmazonEC2",
        {"productFamily": "Storage", "volumeApiName": "gp3"},
        "EBS:VolumeUsage.gp3",
        "GB-month",
    ),
    "snapshot-storage": ProductQuery(
        "AmazonEC2", {"productFamily": "Storage Snapshot"}, "EBS:SnapshotUsage", "GB-month"
    ),
    "gp3-throughput": ProductQuery(
        "AmazonEC2",
        {"productFamily": "Provisioned Throughput", "volumeApiName": "gp3"},
        "EBS:VolumeP-Throughput.gp3",
        "GiBps-month",
    ),
    "gp3-iops": ProductQuery(
        "AmazonEC2",
        {"productFamily": "System Operation", "volumeApiName": "gp3"},
        "EBS:VolumeP-IOPS.gp3",
        "IOPS-month",
    ),
    # Public addresses have no product family.
    "public-ipv4": ProductQuery(
        "AmazonVPC", {"group": "VPCPublicIPv4Address"}, "PublicIPv4:InUseAddress", "hour"
    ),
    "interface-endpoint": ProductQuery(
        "AmazonVPC", {"productFamily": "VpcEndpoint"}, "VpcEndpoint-Hours", "hour"
    ),
    "secret": ProductQuery(
        "AWSSecretsManager", {"productFamily": "Secret"}, "AWSSecretsManager-Secrets", "month"
    ),
    "custom-metric": ProductQuery(
        "AmazonCloudWatch",
        {"productFamily": "Metric"},
        "CW:MetricMonitorUsage",
        "month",
        falls=True,
    ),
}


def query_for(key: PriceKey) -> ProductQuery:
    """Return the query for other than Spot prices."""
    query, name = _QUERIES[key.product], key.instance_type
    return replace(
        query,
        filters={
            "regionCode": key.region,
            **({"instanceType": name} if name else {}),
            **query.filters,
        },
        usage_type=f"{query.usage_type}:{name}" if name else query.usage_type,
    )


def unit_of(key: PriceKey) -> Unit:
    """Return the unit of a price; Spot prices are hourly too."""
    return _QUERIES[key.product].per


def fields_of(query: ProductQuery) -> dict[str, Any]:
    """Return a query as arguments of ``GetProducts``."""
    filters = [
        {"Type": "TERM_MATCH", "Field": field, "Value": value}
        for field, value in query.filters.items()
    ]
    return {"ServiceCode": query.service, "Filters": filters}


def read_prices(key: PriceKey, entries: Iterable[str]) -> dict[str, Reading]:
    """Read a key's on-demand prices in the answer to `query_for`: type or product -> price.

    An entry with an unreadable instance type is skipped: that type has no price then.
    """
    if not key.is_of_all_types:
        return {key.what: read_price(query_for(key), entries)}
    own: dict[str, list[str]] = {}
    for entry in entries:
        with suppress(*_MALFORMED):
            name = str(json.loads(entry)["product"]["attributes"]["instanceType"])
            own.setdefault(name, []).append(entry)
    return {
        name: read_price(query_for(replace(key, instance_type=name)), found)
        for name, found in own.items()
    }


def prices_in(answer: Answer) -> dict[str, dict[str, Decimal]]:
    """Return an answer's prices by place and item, without missing ones."""
    return {
        where: {what: one.usd for what, one in found.items() if one.usd is not None}
        for where, found in answer.items()
    }


def read_price(query: ProductQuery, entries: Iterable[str]) -> Reading:
    """Read the on-demand price in the answer's entries."""
    try:
        found = {offer for entry in entries for offer in _offers(query, json.loads(entry))}
    except _MALFORMED as error:
        problem = "the price list's answer isn't in AWS's documented format"
        return Reading(problem=f"{problem}: {type(error).__name__}: {error}")
    if not found:
        return Reading(problem="the price list has no such product")
    if len(found) > 1:
        offers = ", ".join(f"{exact_usd(usd)} per {unit}" for usd, unit in sorted(found, key=str))
        return Reading(problem=f"the price list has several prices, and none is chosen: {offers}")
    ((usd, unit),) = found
    if usd is None:
        return Reading(problem="the price list has no price in US dollars")
    if _UNITS.get(unit.lower()) != query.per:
        return Reading(problem=f"the price list has a price per {unit}, not per {query.per}")
    return Reading(usd)


def _offers(query: ProductQuery, entry: Mapping[str, Any]) -> Iterator[tuple[Decimal | None, str]]:
    usage_type = entry["product"]["attributes"].get("usagetype", "")
    if not re.fullmatch(rf"(?:[A-Za-z0-9-]+-)?{re.escape(query.usage_type)}", usage_type):
        return
    for term in entry["terms"].get("OnDemand", {}).values():
        steps = sorted(term["priceDimensions"].values(), key=_begin)
        offers = [_offer(step) for step in steps]
        if query.falls and steps and _begin(steps[0]) == 0 and _fall(offers):
            yield offers[0]
        else:
            yield from offers


def _begin(dimension: Mapping[str, Any]) -> Decimal:
    """Return the lower bound of use for a price."""
    return Decimal(dimension.get("beginRange", "0"))


def _offer(dimension: Mapping[str, Any]) -> tuple[Decimal | None, str]:
    text = dimension["pricePerUnit"].get("USD")
    usd = None if text is None else Decimal(text)
    if usd is not None and not (usd.is_finite() and usd >= 0):
        raise ValueError(f"{text} is not a price")
    return usd, str(dimension["unit"])


def _fall(offers: list[tuple[Decimal | None, str]]) -> bool:
    """Return whether no step is more expensive than the previous one, in the same unit."""
    prices = [usd for usd, _ in offers if usd is not None]
    return (
        len(prices) == len(offers)
        and len({unit for _, unit in offers}) == 1
        and prices == sorted(prices, reverse=True)
    )
