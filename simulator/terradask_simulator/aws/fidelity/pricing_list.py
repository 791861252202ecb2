"""The price list of the embedded AWS, in AWS's format: generated from ``pricing.toml``, the same at
every start.
"""

from __future__ import annotations

import functools
import hashlib
import tomllib
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

__all__ = ["SERVICES", "instance_price", "products", "regions", "spot_price"]

#: AWS's codes of the offer "on demand" and of its hourly price, the same for all products.
_ON_DEMAND, _RATE = "JRTCKXETXF", "6YS6EN2CT7"
_RESERVED = "4NA7Y494T4"

_INSTANCE = "Compute Instance"

SERVICES = {
    "AmazonCloudWatch": "AmazonCloudWatch",
    "AmazonEC2": "Amazon Elastic Compute Cloud",
    "AmazonVPC": "Amazon Virtual Private Cloud",
    "AWSSecretsManager": "AWS Secrets Manager",
}


@functools.cache
def _data() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("pricing.toml").read_text(encoding="utf-8"))


def regions() -> tuple[str, ...]:
    """Return the regions of a response to a request without a region."""
    return tuple(_data()["regions"])


def instance_price(instance_type: str) -> Decimal | None:
    """Return the hourly on-demand price of Linux in US dollars; None for an unknown type."""
    made = _types().get(instance_type)
    if made is None:
        return None
    rates = _data()["instances"]
    vcpus = Decimal(made["VCpuInfo"]["DefaultVCpus"])
    gib = Decimal(made["MemoryInfo"]["SizeInMiB"]) / 1024
    gpus = sum(gpu.get("Count", 0) for gpu in made.get("GpuInfo", {}).get("Gpus", []))
    price: Decimal = (
        vcpus * Decimal(rates["usd_per_vcpu"])
        + gib * Decimal(rates["usd_per_gib"])
        + gpus * Decimal(rates["usd_per_gpu"])
    )
    return price.quantize(Decimal("1E-10"))


def spot_price(instance_type: str) -> Decimal | None:
    """Return the hourly spot price of Linux in US dollars; None for an unknown type."""
    price = instance_price(instance_type)
    return (
        None
        if price is None
        else (price * Decimal(_data()["instances"]["spot_share"])).quantize(Decimal("1E-6"))
    )


def products(service: str, region: str, fields: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return a service's products in a region that match field values: entries of ``PriceList``
    before serialization.
    """
    return list(_matching(service, region, tuple(sorted(fields.items()))))


# A request for all instances is answered page by page.
@functools.lru_cache(maxsize=4)
def _matching(
    service: str, region: str, wanted: tuple[tuple[str, str], ...]
) -> tuple[dict[str, Any], ...]:
    fields = dict(wanted)
    found = list(_plain(service, region))
    if service == "AmazonEC2" and fields.get("productFamily", _INSTANCE) == _INSTANCE:
        # There are more than a thousand types: only possible matches are generated.
        types = [fields["instanceType"]] if "instanceType" in fields else list(_types())
        found.extend(
            entry
            for instance_type in types
            if instance_type in _types()
            for entry in _instances(instance_type, region)
        )
    return tuple(entry for entry in found if _matches(entry, fields))


def _matches(entry: dict[str, Any], fields: Mapping[str, str]) -> bool:
    product = entry["product"]
    known = {
        **product["attributes"],
        "productFamily": product.get("productFamily"),
        "sku": product["sku"],
    }
    known["serviceCode"] = known["ServiceCode"] = entry["serviceCode"]
    return all(known.get(field) == value for field, value in fields.items())


def _types() -> dict[str, Any]:
    from moto.ec2.models.instance_types import INSTANCE_TYPES

    return INSTANCE_TYPES


def _plain(service: str, region: str) -> Iterator[dict[str, Any]]:
    for entry in _data()["products"]:
        if entry["service"] != service:
            continue
        usage_type = _usage_type(
            entry["usage_type"], region, everywhere=entry.get("prefixed_everywhere", False)
        )
        attributes = {**entry.get("attributes", {}), "usagetype": usage_type}
        steps = list(zip(entry.get("from", ["0"]), map(Decimal, entry["usd"]), strict=True))
        yield _entry(
            service, region, attributes, family=entry.get("family"), unit=entry["unit"], steps=steps
        )


def _instances(instance_type: str, region: str) -> Iterator[dict[str, Any]]:
    """Yield a type's products: Linux as terradask uses it, and similar ones that too broad a filter
    would match.
    """
    price = instance_price(instance_type) or Decimal()
    for system, tenancy, status, usage, factor in (
        ("Linux", "Shared", "Used", "BoxUsage", 1),
        ("Linux", "Shared", "UnusedCapacityReservation", "UnusedBox", 1),
        ("Linux", "Shared", "AllocatedCapacityReservation", "Reservation", 0),
        ("Linux", "Dedicated", "Used", "DedicatedUsage", 2),
        ("Windows", "Shared", "Used", "BoxUsage", 3),
    ):
        attributes = {
            "instanceType": instance_type,
            "operatingSystem": system,
            "tenancy": tenancy,
            "capacitystatus": status,
            "preInstalledSw": "NA",
            "licenseModel": "No License required",
            "marketoption": "OnDemand",
            "operation": "RunInstances" if system == "Linux" else "RunInstances:0002",
            "usagetype": _usage_type(f"{usage}:{instance_type}", region),
        }
        yield _entry(
            "AmazonEC2",
            region,
            attributes,
            family=_INSTANCE,
            unit="Hrs",
            steps=[("0", price * factor)],
        )


def _usage_type(name: str, region: str, *, everywhere: bool = False) -> str:
    prefix = _data()["regions"].get(region, {}).get("prefix", region)
    return name if region == "us-east-1" and not everywhere else f"{prefix}-{name}"


def _entry(
    service: str,
    region: str,
    attributes: dict[str, str],
    *,
    family: str | None,
    unit: str,
    steps: list[tuple[str, Decimal]],
) -> dict[str, Any]:
    location = _data()["regions"].get(region, {}).get("location", region)
    sku = _sku(service, region, *sorted(attributes.values()))
    product = {
        **({"productFamily": family} if family else {}),
        "attributes": {
            **attributes,
            "servicecode": service,
            "servicename": SERVICES[service],
            "locationType": "AWS Region",
            "location": location,
            "regionCode": region,
        },
        "sku": sku,
    }
    terms = {"OnDemand": _offer(sku, _ON_DEMAND, unit, steps)}
    if attributes.get("capacitystatus") == "Used":
        reserved = _offer(sku, _RESERVED, unit, [("0", steps[0][1] / 2)])
        for offer in reserved.values():
            offer["termAttributes"] = {
                "LeaseContractLength": "1yr",
                "OfferingClass": "standard",
                "PurchaseOption": "No Upfront",
            }
        terms["Reserved"] = reserved
    published = _data()["published"]
    return {
        "product": product,
        "serviceCode": service,
        "terms": terms,
        "version": "20260101000000",
        "publicationDate": published,
    }


def _offer(
    sku: str, code: str, unit: str, steps: list[tuple[str, Decimal]]
) -> dict[str, dict[str, Any]]:
    ends = [begin for begin, _ in steps[1:]] + ["Inf"]
    dimensions = {}
    for number, ((begin, usd), end) in enumerate(zip(steps, ends, strict=True)):
        rate = f"{sku}.{code}.{_RATE if not number else _sku(_RATE, str(number))[:10]}"
        dimensions[rate] = {
            "unit": unit,
            "beginRange": begin,
            "endRange": end,
            "description": f"${usd} per {unit}, made up by the embedded AWS",
            "appliesTo": [],
            "rateCode": rate,
            "pricePerUnit": {"USD": f"{usd:.10f}"},
        }
    key = f"{sku}.{code}"
    offer = {
        "sku": sku,
        "offerTermCode": code,
        "effectiveDate": _data()["published"],
        "termAttributes": {},
        "priceDimensions": dimensions,
    }
    return {key: offer}


def _sku(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16].upper()
