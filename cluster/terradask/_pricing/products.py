"""How AWS's price list is asked for a product, and how its answer is read. Pure.

The fields and usage types are those of AWS's price list: ``BoxUsage``, ``NatGateway-Hours``,
``EBS:VolumeUsage.gp3`` of ``AmazonEC2``, ``PublicIPv4:InUseAddress``, ``VpcEndpoint-Hours`` of
``AmazonVPC``, ``AWSSecretsManager-Secrets``. Before a usage type stands a region's prefix
(``USE1-``), in us-east-1 not always: the region is asked for by ``regionCode``, and the prefix is
skipped here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from terradask._pricing.prices import PriceKey, Unit

_UNITS: Mapping[str, Unit] = {
    "hrs": "hour",
    "hours": "hour",
    "gb-mo": "GB-month",
    "secrets": "month",
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
    region = {"regionCode": key.region}
    match key.product:
        case "instance":
            return _query_for_instance(key.region, str(key.instance_type))
        case "nat-gateway":
            return ProductQuery(
                "AmazonEC2", {**region, "productFamily": "NAT Gateway"}, "NatGateway-Hours", "hour"
            )
        case "gp3-storage":
            filters = {**region, "productFamily": "Storage", "volumeApiName": "gp3"}
            return ProductQuery("AmazonEC2", filters, "EBS:VolumeUsage.gp3", "GB-month")
        case "public-ipv4":
            # Public addresses have no product family.
            return ProductQuery(
                "AmazonVPC",
                {**region, "group": "VPCPublicIPv4Address"},
                "PublicIPv4:InUseAddress",
                "hour",
            )
        case "interface-endpoint":
            return ProductQuery(
                "AmazonVPC", {**region, "productFamily": "VpcEndpoint"}, "VpcEndpoint-Hours", "hour"
            )
        case "secret":
            return ProductQuery(
                "AWSSecretsManager",
                {**region, "productFamily": "Secret"},
                "AWSSecretsManager-Secrets",
                "month",
            )


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
        offers = ", ".join(
            f"{usd if usd is None else format(usd.normalize(), 'f')} per {unit}"
            for usd, unit in sorted(found, key=str)
        )
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
        for dimension in term["priceDimensions"].values():
            text = dimension["pricePerUnit"].get("USD")
            usd = None if text is None else Decimal(text)
            if usd is not None and not (usd.is_finite() and usd >= 0):
                raise ValueError(f"{text} is no price")
            yield usd, str(dimension["unit"])
