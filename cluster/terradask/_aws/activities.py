"""Read a group's scaling activities since a time, even of a deleted group."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from typing import Any

from terradask._aws.translation import time_of


def activities_since(
    client: Any, autoscaling_group: str, since: datetime.datetime
) -> tuple[list[Mapping[str, Any]], datetime.datetime]:
    """Return a group's scaling activities, the newest first, and the time by AWS's clock.

    Empty for a group that never existed.

    AWS (documented, asg-six-weeks): Auto Scaling returns activities of the last six weeks, with
    IncludeDeletedGroups also of deleted groups.
    https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_DescribeScalingActivities.html

    Permission needed: ``autoscaling:DescribeScalingActivities``.
    """
    found: list[Mapping[str, Any]] = []
    at = datetime.datetime.now(datetime.UTC)
    pages = client.get_paginator("describe_scaling_activities").paginate(
        AutoScalingGroupName=autoscaling_group,
        IncludeDeletedGroups=True,
        Filters=[{"Name": "StartTimeLowerBound", "Values": [f"{since:%Y-%m-%dT%H:%M:%SZ}"]}],
    )
    for page in pages:
        at = time_of(page) or at
        found += page["Activities"]
    return found, at


def zone_of(activity: Mapping[str, Any]) -> str | None:
    """Return the zone of a launch, successful or not; None if AWS doesn't report one.

    AWS (documented): A launch in Auto Scaling's activities has the Availability Zone in its
    details. https://docs.aws.amazon.com/autoscaling/ec2/userguide/as-verify-scaling-activity.html
    """
    try:
        zone = json.loads(activity.get("Details") or "{}").get("Availability Zone")
    except (ValueError, AttributeError):
        return None
    return str(zone) if zone else None
