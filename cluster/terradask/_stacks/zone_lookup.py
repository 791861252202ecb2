"""Look up evidence on zones besides their offers: failed launches, and spot prices."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from terradask._aws.activities import zone_of
from terradask._aws.session import Aws
from terradask._instance_types.zones import ZoneEvidence, ZoneFailure
from terradask._pricing.price_list import fetch_spot_prices
from terradask._pricing.products import prices_in
from terradask.errors import AwsError
from terradask_host.rules.launch_problem import launch_failure, read_problem
from terradask_modules.names import resource_name

T = TypeVar("T")

#: How long a failed launch counts: AWS doesn't say how long a lack of capacity lasts.
FAILURES_COUNT_FOR = datetime.timedelta(minutes=30)

#: How many pages of 100 activities to read, newest first: a whole account's can't be filtered by
#: status.
#: https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_DescribeScalingActivities.html
_PAGES = 2


def read_zone_evidence(aws: Aws, workspace: str, spot_types: Iterable[str]) -> ZoneEvidence:
    """Read from AWS what failed recently in which zone, and what types cost on spot.

    What can't be read is left out, and reported.

    Two or three calls. Permissions needed: ``autoscaling:DescribeScalingActivities``;
    ``ec2:DescribeSpotPriceHistory`` for prices.
    """
    now = datetime.datetime.now(datetime.UTC)
    types = sorted(set(spot_types))
    with ThreadPoolExecutor(2) as pool:
        failed = pool.submit(
            _tried, lambda: tuple(_failures(aws, workspace, now - FAILURES_COUNT_FOR)), ()
        )
        priced = pool.submit(_tried, lambda: _prices(aws, types, now), {})
        (failures, no_failures), (prices, no_prices) = failed.result(), priced.result()
    notes = [
        f"{what} aren't considered: {problem}"
        for what, problem in (("recent failed launches", no_failures), ("spot prices", no_prices))
        if problem is not None
    ]
    return ZoneEvidence(failures, prices, tuple(notes))


def read_failures(
    activities: Iterable[Mapping[str, Any]], workspace: str, since: datetime.datetime
) -> Iterator[ZoneFailure]:
    """Yield the failed launches of a workspace's groups, with their zone.

    Includes groups of workspaces whose longer names begin with this one: they are in the same
    account and zones.
    """
    begins = resource_name(workspace, "")
    for activity in activities:
        name, text = activity["AutoScalingGroupName"], launch_failure(activity)
        zone = zone_of(activity)
        if text and name.startswith(begins) and zone and activity["StartTime"] >= since:
            yield ZoneFailure(
                zone, "spot" if name.endswith("-spot") else "on-demand", read_problem(text)
            )


def _failures(aws: Aws, workspace: str, since: datetime.datetime) -> Iterator[ZoneFailure]:
    client, token = aws.client("autoscaling"), None
    for _ in range(_PAGES):
        answer = client.describe_scaling_activities(
            IncludeDeletedGroups=True,
            Filters=[
                {"Name": "StartTimeLowerBound", "Values": [since.strftime("%Y-%m-%dT%H:%M:%SZ")]}
            ],
            **({"NextToken": token} if token else {}),
        )
        yield from read_failures(answer["Activities"], workspace, since)
        token = answer.get("NextToken")
        if not token:
            return


def _prices(aws: Aws, types: list[str], now: datetime.datetime) -> dict[str, dict[str, Decimal]]:
    return prices_in(fetch_spot_prices(aws, now, types)) if types else {}


def _tried(call: Callable[[], T], nothing: T) -> tuple[T, str | None]:
    """Return a look-up's result, or why there is none."""
    try:
        return call(), None
    except (AwsError, BotoCoreError, ClientError) as error:
        return nothing, " ".join(str(error).split())
