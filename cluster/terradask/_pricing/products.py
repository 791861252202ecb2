"""How AWS's price list is asked for a product, and how its answer is read. Pure.

The fields and usage types are those of AWS's price list: ``BoxUsage``, ``NatGateway-Hours``,
``EBS:VolumeUsage.gp3``, ``EBS:VolumeP-Throughput.gp3`` and ``EBS:VolumeP-IOPS.gp3`` of
``AmazonEC2``, ``PublicIPv4:InUseAddress``, ``VpcEndpoint-Hours`` of
``AmazonVPC``, ``AWSSecretsManager-Secrets``, ``CW:MetricMonitorUsage`` of ``AmazonCloudWatch``.
Before a usage type stands a region's prefix (``USE1-``), in us-east-1 not always: the region is
asked for by ``regionCode``, and the prefix is skipped here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Any

from terradask._pricing.estimate import price_text
from terradask._pricing.prices import PriceKey, Product, Unit

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
    """A question to the price list."""

    #: AWS's code of the service, such as ``AmazonEC2``.
    service: str
    #: Field -> value that it must have.
    filters: Mapping[str, str]
    #: The usage type that counts, without a region's prefix: AWS can't filter by it.
    usage_type: str
    #: The unit that the price must be in.
    per: Unit
    #: Whether the price falls with the account's use. The first step's counts then, which is the
    #: dearest: what else the account uses isn't known here.
    falls: bool = False


@dataclass(frozen=True)
class Reading:
    """A price read from the list's answer, or why there is none."""

    usd: Decimal | None = None
    problem: str | None = None


# Without the last two, reservations and capacity blocks answer as well.
_LINUX = {
    "operatingSystem": "Linux",
    "preInstalledSw": "NA",
    "tenancy": "Shared",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}

#: What reading an answer of another shape raises.
_MALFORMED = (ValueError, KeyError, TypeError, AttributeError, InvalidOperation)


def query_for_instances(region: str) -> ProductQuery:
    """Return the question for the prices of all of a region's instance types."""
    return ProductQuery("AmazonEC2", {"regionCode": region, **_LINUX}, "BoxUsage", "hour")


def _query_for_instance(region: str, name: str) -> ProductQuery:
    return ProductQuery(
        "AmazonEC2",
        {"regionCode": region, "instanceType": name, **_LINUX},
        f"BoxUsage:{name}",
        "hour",
    )


def query_for(key: PriceKey) -> ProductQuery:
    """Return the question for a price that isn't a spot price."""
    if key.product == "instance":
        return _query_for_instance(key.region, str(key.instance_type))
    query = _QUERIES[key.product]
    return replace(query, filters={"regionCode": key.region, **query.filters})


#: Product -> its question, without the region.
_QUERIES: Mapping[Product, ProductQuery] = {
    "nat-gateway": ProductQuery(
        "AmazonEC2", {"productFamily": "NAT Gateway"}, "NatGateway-Hours", "hour"
    ),
    "gp3-storage": ProductQuery(
        "AmazonEC2",
        {"productFamily": "Storage", "volumeApiName": "gp3"},
        "EBS:VolumeUsage.gp3",
        "GB-month",
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


def fields_of(query: ProductQuery) -> dict[str, Any]:
    """Return a question as ``GetProducts`` takes it."""
    filters = [
        {"Type": "TERM_MATCH", "Field": field, "Value": value}
        for field, value in query.filters.items()
    ]
    return {"ServiceCode": query.service, "Filters": filters}


def read_price(query: ProductQuery, entries: Iterable[str]) -> Reading:
    """Read the price on demand out of the answer's entries."""
    try:
        return _reading(
            query, {offer for entry in entries for offer in _offers(query, json.loads(entry))}
        )
    except _MALFORMED as error:
        return _malformed(error)


def read_instance_prices(region: str, entries: Iterable[str]) -> dict[str, Reading]:
    """Read the price on demand of each instance type out of the answer to `query_for_instances`."""
    offers: dict[str, set[tuple[Decimal | None, str]]] = {}
    readings: dict[str, Reading] = {}
    for text in entries:
        try:
            entry = json.loads(text)
            name = str(entry["product"]["attributes"]["instanceType"])
        except _MALFORMED:
            # Of which type isn't known: that one then has no price.
            continue
        try:
            offers.setdefault(name, set()).update(_offers(_query_for_instance(region, name), entry))
        except _MALFORMED as error:
            readings[name] = _malformed(error)
    return {
        name: _reading(_query_for_instance(region, name), found) for name, found in offers.items()
    } | readings


def _malformed(error: Exception) -> Reading:
    return Reading(
        problem=(
            f"the price list's answer isn't as AWS documents it: {type(error).__name__}: {error}"
        )
    )


def _reading(query: ProductQuery, found: set[tuple[Decimal | None, str]]) -> Reading:
    if not found:
        return Reading(problem="the price list has no such product")
    if len(found) > 1:
        offers = ", ".join(f"{price_text(usd)} per {unit}" for usd, unit in sorted(found, key=str))
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
    """Return the use from which on a price counts."""
    return Decimal(dimension.get("beginRange", "0"))


def _offer(dimension: Mapping[str, Any]) -> tuple[Decimal | None, str]:
    text = dimension["pricePerUnit"].get("USD")
    usd = None if text is None else Decimal(text)
    if usd is not None and not (usd.is_finite() and usd >= 0):
        raise ValueError(f"{text} is no price")
    return usd, str(dimension["unit"])


def _fall(offers: list[tuple[Decimal | None, str]]) -> bool:
    """Return whether each step is as dear as the one before it at most, in the same unit."""
    prices = [usd for usd, _ in offers if usd is not None]
    return (
        len(prices) == len(offers)
        and len({unit for _, unit in offers}) == 1
        and prices == sorted(prices, reverse=True)
    )
