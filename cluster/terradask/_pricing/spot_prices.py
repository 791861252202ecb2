"""Spot prices, which no price list has: EC2 lists them by zone."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from terradask._aws.listing import listed
from terradask._aws.session import Aws
from terradask._pricing.products import Answer, Reading

#: Both of EC2's names for Linux.
LINUX = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")


def fetch_spot_prices(
    aws: Aws,
    now: datetime.datetime,
    instance_types: Iterable[str] | None = None,
    zone: str | None = None,
) -> Answer:
    """Ask for what instance types, or all, cost on spot now.

    Permission needed: ``ec2:DescribeSpotPriceHistory``. AWS answers with a thousand prices at a
    time: some ten calls for all types, one for those of a group.
    """
    question = {
        **({} if instance_types is None else {"InstanceTypes": sorted(instance_types)}),
        **({} if zone is None else {"AvailabilityZone": zone}),
    }
    entries: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for entry in listed(
        aws.client("ec2"),
        "describe_spot_price_history",
        "SpotPriceHistory",
        ProductDescriptions=list(LINUX),
        StartTime=now,
        EndTime=now,
        **question,
    ):
        of_zone = entries.setdefault(entry["AvailabilityZone"], {})
        of_zone.setdefault(entry["InstanceType"], []).append(entry)
    return {
        zone: {name: read_spot_price(name, own) for name, own in types.items()}
        for zone, types in entries.items()
    }


def read_spot_price(instance_type: str, entries: Iterable[Mapping[str, Any]]) -> Reading:
    """Read a type's price: the newest, or none where the newest ones differ."""
    try:
        own = [
            entry
            for entry in entries
            if entry["InstanceType"] == instance_type and entry["ProductDescription"] in LINUX
        ]
        newest = max((entry["Timestamp"] for entry in own), default=None)
        found = {Decimal(entry["SpotPrice"]) for entry in own if entry["Timestamp"] == newest}
    except (InvalidOperation, KeyError, TypeError, ValueError):
        return Reading(
            problem="EC2's answer isn't as AWS documents it, or has no number as its spot price"
        )
    if not found:
        return Reading(problem="there is no spot price in this zone")
    if len(found) > 1:
        return Reading(
            problem=(
                "there are several spot prices, and none is chosen: "
                f"{', '.join(sorted(map(str, found)))}"
            )
        )
    return Reading(found.pop())
