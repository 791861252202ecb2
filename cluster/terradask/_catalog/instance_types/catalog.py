"""Load the catalog of a region's instance types, from disk while fresh, else from AWS. A catalog of
named types takes two calls.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

from pydantic import TypeAdapter

from terradask._aws.endpoints import cache_name, own_cache
from terradask._aws.listing import listed
from terradask._aws.session import Aws
from terradask._catalog.instance_types.model import Catalog, Gpus, InstanceType, read_types
from terradask._catalog.prices.price_list import AwsPriceList
from terradask._common.clock import is_younger
from terradask._common.disk_cache import DiskCache

FORMAT = 2

MAX_AGE = datetime.timedelta(days=1)

_CATALOG = TypeAdapter(Catalog)
#: Version of the cached format.
_FIELDS = [field.name for cls in (InstanceType, Gpus) for field in fields(cls)]


def load_catalog(
    aws: Aws,
    *,
    refresh: bool = False,
    cache: DiskCache | None = None,
    now: Callable[[], datetime.datetime] | None = None,
) -> Catalog:
    """Return a region's instance types, and its zones' offers.

    Raises `AccessDenied`, `AwsError`.

    Permissions needed: ``ec2:DescribeInstanceTypes``, ``ec2:DescribeInstanceTypeOfferings``. A
    download takes some twenty calls.
    """
    asked_at = now() if now else datetime.datetime.now(datetime.UTC)
    moment = asked_at.astimezone(datetime.UTC).replace(microsecond=0)
    endpoint: str = aws.client("ec2").meta.endpoint_url
    place = cache_name(endpoint)
    kept_in = cache or own_cache("catalogs", endpoint)
    # A zone's name can mean another zone in another account.
    names = (place or urlsplit(endpoint).netloc, aws.account_id, aws.region)
    kept = None if kept_in is None or refresh else read_catalog(kept_in.read(*names), aws.region)
    if kept is not None and is_younger(kept.fetched_at, MAX_AGE, moment):
        return kept
    catalog = _fetch(aws, moment, {"MaxResults": 100}, {"MaxResults": 1000})
    if kept_in is not None:
        kept_in.write(catalog_document(catalog), *names)
    return catalog


def named_catalog(aws: Aws, names: Iterable[str]) -> Catalog:
    """Return a catalog of named types, without unknown ones and those that no zone offers.

    Permissions needed: those of `load_catalog`.
    """
    named = {"Filters": [{"Name": "instance-type", "Values": sorted(names)}]}
    return _fetch(aws, datetime.datetime.now(datetime.UTC), named, named)


def priced_catalog(aws: Aws) -> tuple[Catalog, Mapping[str, Decimal]]:
    """Return the region's catalog, and each type's on-demand price per hour."""
    with ThreadPoolExecutor(1) as pool:
        sheet = pool.submit(AwsPriceList(aws).of_region, "on-demand")
        catalog = load_catalog(aws)
        return catalog, sheet.result().usd.get(aws.region, {})


def _fetch(
    aws: Aws,
    now: datetime.datetime,
    types_asked: Mapping[str, Any],
    offers_asked: Mapping[str, Any],
) -> Catalog:
    with ThreadPoolExecutor(2) as pool:
        offered = pool.submit(_zones, aws, offers_asked)
        types = read_types(
            listed(aws.client("ec2"), "describe_instance_types", "InstanceTypes", **types_asked)
        )
        zones = offered.result()
    anywhere = frozenset[str]().union(*zones.values()) & types.keys()
    return Catalog(
        region=aws.region,
        types={name: one for name, one in types.items() if name in anywhere},
        zones={zone: names & anywhere for zone, names in sorted(zones.items())},
        fetched_at=now,
    )


def _zones(aws: Aws, asked: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    method, question = "describe_instance_type_offerings", {"LocationType": "availability-zone"}
    for offering in listed(aws.client("ec2"), method, "InstanceTypeOfferings", **question, **asked):
        found.setdefault(offering["Location"], set()).add(offering["InstanceType"])
    # Local and wavelength zones, with longer names, have other prices, and no clusters.
    return {
        zone: frozenset(names)
        for zone, names in found.items()
        if re.fullmatch(f"{re.escape(aws.region)}[a-z]", zone)
    }


# ---- on disk -------------------------------------------------------------------------------------


def catalog_document(catalog: Catalog) -> dict[str, Any]:
    """Return a catalog as JSON for `read_catalog`."""
    known = {"format": FORMAT, "fields": _FIELDS}
    return {**known, **_CATALOG.dump_python(catalog, mode="json")}


def read_catalog(document: Any, region: str) -> Catalog | None:
    """Read a catalog from JSON; None unless `catalog_document` wrote it for this region."""
    try:
        if (document["format"], document["fields"]) != (FORMAT, _FIELDS):
            return None
        catalog = _CATALOG.validate_python(document)
    except (ValueError, KeyError, TypeError):
        return None
    sound = (
        catalog.region == region
        and catalog.fetched_at.tzinfo is not None
        and frozenset[str]().union(*catalog.zones.values()) == catalog.types.keys()
    )
    return catalog if sound else None
