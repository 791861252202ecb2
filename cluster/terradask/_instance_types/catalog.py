"""The catalog of a region's instance types: from disk while it is young, else from AWS."""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from terradask._aws.endpoints import cache_name
from terradask._aws.listing import listed
from terradask._aws.session import Aws
from terradask._common.clock import is_younger
from terradask._common.disk_cache import DiskCache
from terradask._instance_types.model import Catalog, Gpus, InstanceType, read_types
from terradask.errors import AccessDenied
from terradask_stacks.loading import STATE_DIR_VARIABLE

FORMAT = 1

MAX_AGE = datetime.timedelta(days=1)

_GPUS = [field.name for field in fields(InstanceType)].index("gpus")


def load_catalog(
    aws: Aws,
    *,
    max_age: datetime.timedelta = MAX_AGE,
    refresh: bool = False,
    cache: DiskCache | None = None,
    now: Callable[[], datetime.datetime] | None = None,
) -> Catalog:
    """Return the instance types of a region, and what its zones offer.

    Raises `AccessDenied`, `AwsError`.

    Permissions needed: ``ec2:DescribeInstanceTypes``, ``ec2:DescribeInstanceTypeOfferings``. Asking
    takes some twenty calls.
    """
    moment = (
        (now() if now else datetime.datetime.now(datetime.UTC))
        .astimezone(datetime.UTC)
        .replace(microsecond=0)
    )
    endpoint: str = aws.client("ec2").meta.endpoint_url
    place = cache_name(endpoint)
    kept_in = cache or _own_cache(endpoint)
    # A zone's name can mean another zone in another account.
    names = (place or urlsplit(endpoint).netloc, aws.account_id, aws.region)
    kept = None if kept_in is None or refresh else read_catalog(kept_in.read(*names), aws.region)
    if kept is not None and is_younger(kept.fetched_at, max_age, moment):
        return kept
    catalog = fetch_catalog(aws, moment)
    if kept_in is not None:
        kept_in.write(catalog_document(catalog), *names)
    return catalog


def fetch_catalog(aws: Aws, now: datetime.datetime) -> Catalog:
    """Ask AWS for a region's instance types, and for what its zones offer."""
    with ThreadPoolExecutor(2) as pool:
        offered = pool.submit(_zones, aws)
        types = read_types(_pages(aws, "describe_instance_types", "InstanceTypes", MaxResults=100))
        zones = offered.result()
    anywhere = frozenset[str]().union(*zones.values()) & types.keys()
    return Catalog(
        region=aws.region,
        types={name: one for name, one in types.items() if name in anywhere},
        zones={zone: names & anywhere for zone, names in sorted(zones.items())},
        fetched_at=now,
    )


def _zones(aws: Aws) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    offerings = _pages(
        aws,
        "describe_instance_type_offerings",
        "InstanceTypeOfferings",
        LocationType="availability-zone",
        MaxResults=1000,
    )
    for offering in offerings:
        found.setdefault(offering["Location"], set()).add(offering["InstanceType"])
    # Local and wavelength zones, whose names are longer, have prices of their own, and no clusters.
    return {
        zone: frozenset(names)
        for zone, names in found.items()
        if re.fullmatch(f"{re.escape(aws.region)}[a-z]", zone)
    }


def _pages(aws: Aws, operation: str, member: str, **question: Any) -> Iterator[Mapping[str, Any]]:
    with _naming(f"ec2:{''.join(map(str.capitalize, operation.split('_')))}"):
        yield from listed(aws.client("ec2"), operation, member, **question)


@contextmanager
def _naming(action: str) -> Iterator[None]:
    """Name the permission in a refusal: EC2 doesn't always."""
    try:
        yield
    except AccessDenied as error:
        raise AccessDenied(action, str(error.given)) from error


def _own_cache(endpoint: str) -> DiskCache | None:
    if cache_name(endpoint) is not None:
        return DiskCache("catalogs")
    # The embedded AWS brings a folder of its own, which goes when it does.
    folder = os.environ.get(STATE_DIR_VARIABLE)
    return DiskCache("catalogs", Path(folder) / "catalogs") if folder else None


# ---- on disk -------------------------------------------------------------------------------------


def catalog_document(catalog: Catalog) -> dict[str, Any]:
    """Return a catalog as JSON for `read_catalog`: types are lists, which are faster to read."""
    return {
        "format": FORMAT,
        "region": catalog.region,
        "fetched_at": catalog.fetched_at.isoformat(),
        "fields": _fields(InstanceType),
        "gpu_fields": _fields(Gpus),
        "types": [_row(one) for one in catalog.types.values()],
        "zones": {zone: sorted(names) for zone, names in catalog.zones.items()},
    }


def read_catalog(document: Any, region: str) -> Catalog | None:
    """Read a catalog from JSON; None unless `catalog_document` wrote it for this region."""
    try:
        if (document["format"], document["region"]) != (FORMAT, region):
            return None
        # Of an older or a newer terradask, which knew other fields.
        if (document["fields"], document["gpu_fields"]) != (_fields(InstanceType), _fields(Gpus)):
            return None
        types = {row[0]: _type(row) for row in document["types"]}
        zones = {zone: frozenset(names) for zone, names in document["zones"].items()}
        fetched_at = datetime.datetime.fromisoformat(document["fetched_at"])
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        return None
    sound = (
        fetched_at.tzinfo is not None and frozenset[str]().union(*zones.values()) == types.keys()
    )
    return Catalog(region, types, zones, fetched_at) if sound else None


def _fields(cls: type[InstanceType | Gpus]) -> list[str]:
    return [field.name for field in fields(cls)]


def _row(one: InstanceType) -> list[Any]:
    row = [getattr(one, name) for name in _fields(InstanceType)]
    row[_GPUS] = None if one.gpus is None else [getattr(one.gpus, name) for name in _fields(Gpus)]
    return row


def _type(row: list[Any]) -> InstanceType:
    one = InstanceType(*row)
    return one if row[_GPUS] is None else replace(one, gpus=Gpus(*row[_GPUS]))
