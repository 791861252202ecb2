"""List AWS's items from all pages of an answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def listed(client: Any, method: str, listing: str, **question: Any) -> Iterator[Any]:
    """Yield the items of a client's method, page by page."""
    if client.can_paginate(method):
        for page in client.get_paginator(method).paginate(**question):
            yield from page[listing]
    else:
        yield from getattr(client, method)(**question)[listing]


def listed_instances(client: Any, **question: Any) -> Iterator[Any]:
    """Yield the instances of EC2's reservations."""
    for reservation in listed(client, "describe_instances", "Reservations", **question):
        yield from reservation["Instances"]


def listed_zones(client: Any) -> list[str]:
    """Return a region's zones, sorted, without local and wavelength zones, which have few types."""
    filters = [{"Name": "state", "Values": ["available"]}]
    zones = client.describe_availability_zones(Filters=filters)["AvailabilityZones"]
    return sorted(
        zone["ZoneName"]
        for zone in zones
        if zone.get("ZoneType", "availability-zone") == "availability-zone"
        and zone.get("State", "available") == "available"
    )


def listed_groups(client: Any, **question: Any) -> Iterator[Any]:
    """Yield Auto Scaling groups, without those being deleted, which AWS lists for a while."""
    for group in listed(client, "describe_auto_scaling_groups", "AutoScalingGroups", **question):
        if not group.get("Status"):
            yield group
