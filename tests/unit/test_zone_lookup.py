"""What AWS tells of zones: recent failed launches, and spot prices."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from botocore.exceptions import ClientError

from terradask._aws.session import Aws
from terradask._catalog.prices.products import Reading
from terradask._synthesis import resolve_hardware
from terradask._synthesis.resolve_hardware import (
    FAILURES_COUNT_FOR,
    read_failures,
    read_zone_evidence,
)
from terradask.errors import AccessDenied

from .zone_facts import NOW, A, B


def _activity(
    group: str = "terradask-default-etl-workers", zone: str = A, **other: Any
) -> dict[str, Any]:
    text = (
        "We currently do not have sufficient m6i.xlarge capacity in the Availability Zone you "
        "requested (us-east-1a)."
    )
    return {
        "AutoScalingGroupName": group,
        "StatusCode": "Failed",
        "StatusMessage": text,
        "StartTime": NOW,
        "Details": json.dumps({"Subnet ID": "subnet-1", "Availability Zone": zone}),
        **other,
    }


def test_failures_are_read_from_the_activities_of_the_workspaces_groups() -> None:
    activities = [
        _activity(),
        _activity("terradask-default-old-gpu-spot", B, AutoScalingGroupState="Deleted"),
        _activity("terradask-other-etl-workers"),
        _activity("web"),
        _activity(StatusCode="Successful", StatusMessage=None),
        _activity(StatusCode="Cancelled", StatusMessage=None),
        _activity(StatusCode="Failed", StatusMessage=""),
        _activity(StartTime=NOW - FAILURES_COUNT_FOR - timedelta(seconds=1)),
        _activity(Details="no JSON"),
        _activity(Details=None),
        _activity(Details="[]"),
    ]
    found = list(read_failures(activities, "default", NOW - FAILURES_COUNT_FOR))
    assert [
        (one.zone, one.market, one.problem.code, one.problem.instance_type) for one in found
    ] == [
        (A, "on-demand", "InsufficientInstanceCapacity", "m6i.xlarge"),
        (B, "spot", "InsufficientInstanceCapacity", "m6i.xlarge"),
    ]


class _Autoscaling:
    """Answers with as many pages as there are, and one more."""

    def __init__(self, refuses: bool = False) -> None:
        self.asked: list[dict[str, Any]] = []
        self.refuses = refuses

    def describe_scaling_activities(self, **asked: Any) -> dict[str, Any]:
        self.asked.append(asked)
        if self.refuses:
            raise ClientError(
                {"Error": {"Code": "AccessDenied", "Message": "no"}}, "DescribeScalingActivities"
            )
        return {"Activities": [_activity(StartTime=datetime.now(UTC))], "NextToken": "more"}


def _aws(monkeypatch: pytest.MonkeyPatch, client: _Autoscaling) -> Aws:
    aws = Aws("us-east-1")
    monkeypatch.setattr(aws, "client", lambda _name: client)
    return aws


def test_two_pages_are_read_and_prices_of_what_is_on_spot(monkeypatch: pytest.MonkeyPatch) -> None:
    client, asked = _Autoscaling(), []

    def spot(_aws: Aws, _now: datetime, types: list[str]) -> dict[str, dict[str, Reading]]:
        asked.append(types)
        return {A: {"m5.large": Reading(Decimal("0.03")), "m6i.large": Reading(problem="none")}}

    monkeypatch.setattr(resolve_hardware, "fetch_spot_prices", spot)
    found = read_zone_evidence(
        _aws(monkeypatch, client), "default", ["m6i.large", "m5.large", "m5.large"]
    )
    assert ([one.zone for one in found.failures], found.notes) == ([A, A], ())
    assert found.spot_usd == {A: {"m5.large": Decimal("0.03")}}
    assert asked == [["m5.large", "m6i.large"]]
    assert [call.get("NextToken") for call in client.asked] == [None, "more"]
    assert all(
        call["IncludeDeletedGroups"] and call["Filters"][0]["Name"] == "StartTimeLowerBound"
        for call in client.asked
    )
    read_zone_evidence(_aws(monkeypatch, client), "default", [])
    assert len(asked) == 1


def test_what_the_caller_may_not_see_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> Any:
        raise AccessDenied("ec2:DescribeSpotPriceHistory", "no")

    monkeypatch.setattr(resolve_hardware, "fetch_spot_prices", refused)
    found = read_zone_evidence(
        _aws(monkeypatch, _Autoscaling(refuses=True)), "default", ["m5.large"]
    )
    assert (found.failures, found.spot_usd) == ((), {})
    assert [note.partition(":")[0] for note in found.notes] == [
        "recent failed launches aren't considered",
        "spot prices aren't considered",
    ]
