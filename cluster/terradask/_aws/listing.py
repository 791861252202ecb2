"""List AWS's items from all pages of an answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from terradask._common.batches import batches

#: AWS (reported, ec2-filter-values): EC2's filters take up to 200 values in one call.
#: https://github.com/gjbae1212/gossm/issues/47
MOST_VALUES = 200
#: AWS (reported): Auto Scaling takes up to 50 names of groups in one call.
#: https://github.com/boto/botocore/issues/1444
_MOST_NAMES = {"AutoScalingGroupNames": 50}


def listed(client: Any, method: str, listing: str, **question: Any) -> Iterator[Any]:
    """Yield the items of a client's method, page by page, with as many calls as AWS's limits for
    names and for values of filters need.
    """
    for part in _within_limits(question):
        if client.can_paginate(method):
            for page in client.get_paginator(method).paginate(**part):
                yield from page[listing]
        else:
            yield from getattr(client, method)(**part)[listing]


def _within_limits(question: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for name, most in _MOST_NAMES.items():
        if len(names := question.get(name, ())) > most:
            for part in batches(names, most):
                yield {**question, name: part}
            return
    filters = question.get("Filters", ())
    counts = [len(one.get("Values", ())) for one in filters]
    if sum(counts) <= MOST_VALUES:
        yield question
        return
    at = counts.index(max(counts))
    for part in batches(filters[at]["Values"], MOST_VALUES - sum(counts) + counts[at]):
        yield {
            **question,
            "Filters": [*filters[:at], {**filters[at], "Values": part}, *filters[at + 1 :]],
        }


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
