"""Accounts of runs: what AWS and hosts say of instances, and what that comes to."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from terradask._catalog.prices.prices import Price, PriceKey, Quotes
from terradask._common.dollars import usd_text
from terradask._observe.documents import SILENT
from terradask._observe.run_costs.account import (
    Account,
    Observation,
    Use,
    merge_observation,
    next_starts,
    read_account,
)
from terradask._observe.run_costs.book import end_reason, find_prices
from terradask._observe.run_costs.totals import billed_seconds, check_by, costs_of
from terradask.errors import InvalidInput
from terradask_host.documents import Ended, HostReport, SchedulerAddress

from .account_facts import ACCOUNT, HOST, OFFER, PRICE, RUN, START, at
from .host_facts import run_document


def launched(host: str, seconds: float, status: str = "Successful") -> dict[str, Any]:
    return {
        "Description": f"Launching a new EC2 instance: {host}",
        "StatusCode": status,
        "StartTime": at(seconds),
        "Details": json.dumps({"Subnet ID": "subnet-1", "Availability Zone": "us-east-1a"}),
    }


def terminated(host: str, seconds: float) -> dict[str, Any]:
    return {
        "Description": f"Terminating EC2 instance: {host}",
        "StatusCode": "Successful",
        "StartTime": at(seconds),
    }


def described(host: str, seconds: float, ended: float | None = None, **tags: str) -> dict[str, Any]:
    own = {"terradask:run:id": RUN, "terradask:group": "workers", "team": "research", **tags}
    return {
        "InstanceId": host,
        "InstanceType": "m7i.xlarge",
        "LaunchTime": at(seconds),
        "Placement": {"AvailabilityZone": "us-east-1b"},
        "State": {"Name": "running" if ended is None else "terminated"},
        "StateTransitionReason": ""
        if ended is None
        else f"User initiated ({at(ended):%Y-%m-%d %H:%M:%S} GMT)",
        "Tags": [{"Key": key, "Value": value} for key, value in own.items()],
    }


def report(host: str, name: str, run_id: str = RUN) -> HostReport:
    return HostReport(
        host,
        "worker",
        "workers",
        "running",
        None,
        "2026-11-24T08:01:00Z",
        run_id,
        instance_type=name,
    )


def see(
    account: Account = ACCOUNT,
    seconds: float = 7_200,
    *,
    is_over: bool = False,
    next_start: int | None = None,
    reason: str | None = None,
    instances: Any = (),
    reports: Any = (),
    **activities: Any,
) -> Account:
    shown = {name.replace("_", "-"): found for name, found in activities.items()}
    observed = Observation(round(START + seconds), shown, instances, reports)
    return merge_observation(
        account, observed, is_over=is_over, next_start=next_start, reason=reason
    )


def test_what_ec2_says_comes_first() -> None:
    found = see(
        workers=[terminated(HOST, 700), launched(HOST, 5)],
        instances=[described(HOST, 9, 650)],
        reports=[report(HOST, "m6i.xlarge")],
        is_over=True,
    )
    assert found.uses == {
        HOST: Use(HOST, "workers", "m7i.xlarge", "aws", "us-east-1b", START + 9, START + 650)
    }
    assert (found.ended_at, found.looked_at) == (START + 7_200, START + 7_200)
    assert found.is_settled
    assert found.tags == {"project": "forecast", "team": "research"}


def test_an_end_is_in_its_second_and_not_in_the_next() -> None:
    found = see(workers=[launched(HOST, 5), terminated(HOST, 700.9)], is_over=True)
    assert found.uses[HOST].end == START + 700


def test_why_a_run_has_ended_is_noted_once() -> None:
    assert see(reason="idle").reason is None
    ended = see(is_over=True, reason="idle for 20 minutes")
    assert ended.reason == "idle for 20 minutes"
    assert see(ended, is_over=True, reason="stopped by ada").reason == "idle for 20 minutes"
    # An earlier look may not have known it.
    unknown = see(is_over=True)
    assert see(unknown, is_over=True, reason="stopped by ada").reason == "stopped by ada"


@pytest.mark.parametrize(
    ("ended", "run_id", "by", "reason"),
    [
        (Ended("2026-11-24T09:00:00Z", "idle for 20 minutes"), RUN, None, "idle for 20 minutes"),
        (Ended("2026-11-24T09:00:00Z", "idle"), RUN, "stopped by ada", "idle"),
        (Ended("2026-11-24T09:00:00Z", "idle"), "r0", "stopped by ada", "stopped by ada"),
        (None, RUN, "stopped by ada", "stopped by ada"),
        (None, RUN, None, SILENT),
        (Ended("2026-11-24T09:00:00Z", "x" * 9_000), RUN, None, "x" * 500),
    ],
)
def test_the_hosts_reason_comes_before_the_callers(
    ended: Ended | None, run_id: str, by: str | None, reason: str
) -> None:
    run = replace(run_document(), run_id=RUN)
    address = SchedulerAddress(
        run_id, "i-1", 1, "tls://10.0.0.1:8786", None, 8787, "3.12", {}, ended
    )
    assert end_reason(run, address, by) == reason


def test_an_older_account_has_no_reason() -> None:
    document = replace(ACCOUNT, ended_at=START, reason="idle").to_document()
    assert read_account(ACCOUNT.key, document).reason == "idle"
    del document["reason"]
    assert read_account(ACCOUNT.key, document).reason is None


def test_what_ec2_has_forgotten_auto_scaling_still_knows() -> None:
    found = see(
        workers=[terminated(HOST, 700), launched(HOST, 5)], reports=[report(HOST, "m6i.xlarge")]
    )
    assert found.uses == {
        HOST: Use(HOST, "workers", "m6i.xlarge", "host", "us-east-1a", START + 5, START + 700)
    }
    assert (found.ended_at, found.is_settled) == (None, False)


def test_an_instance_that_runs_has_no_end_and_keeps_its_type_when_it_is_forgotten() -> None:
    first = see(workers=[launched(HOST, 5)], instances=[described(HOST, 9)], is_over=True)
    assert (first.uses[HOST].end, first.is_settled) == (None, False)
    later = see(first, 20_000, workers=[terminated(HOST, 7_300), launched(HOST, 5)], is_over=True)
    assert later.uses[HOST] == first.uses[HOST]._replace(end=START + 7_300)
    assert later.is_settled
    # A second look at what is settled changes nothing but its time.
    assert see(later, 20_000, workers=[launched(HOST, 5)], is_over=True) == later


def test_an_end_that_is_known_no_more_is_when_the_instance_was_last_seen() -> None:
    seen = see(instances=[described(HOST, 9)])
    gone = see(seen, 90_000, is_over=True)
    assert gone.uses[HOST] == seen.uses[HOST]._replace(end=START + 7_200)
    # That was a mistake if EC2 says that it runs.
    assert see(gone, 90_060, instances=[described(HOST, 9)]).uses == seen.uses
    told = see(gone, 90_060, instances=[described(HOST, 9, 90_030)])
    assert told.uses[HOST].end == START + 90_030
    # One whose launch is young may only be hidden: EC2 shows what is new late.
    assert see(seconds=60, workers=[launched(HOST, 5)]).uses[HOST].end is None


def test_what_was_not_the_runs_is_not_in_its_account() -> None:
    found = see(
        seconds=7_200,
        next_start=START + 3_600,
        workers=[
            launched("i-1", -10),
            launched("i-2", 5, "Failed"),
            launched("i-3", 6, "Cancelled"),
            launched("i-4", 3_600),
            {**launched("i-5", 7), "Description": "Attaching an existing EC2 instance: i-5"},
        ],
        instances=[
            described("i-6", 8, **{"terradask:run:id": "20261124T070000Z-000000"}),
            described("i-7", 8, **{"terradask:group": "other"}),
        ],
    )
    assert (found.uses, found.ended_at) == ({}, START + 3_600)


def test_a_host_can_name_a_type_of_its_group_and_nothing_else() -> None:
    forged = [
        report(HOST, "p5.48xlarge"),
        report("i-00000000000000001", "m6i.xlarge"),
        replace(report("i-2", "m6i.xlarge"), group="scheduler"),
    ]
    found = see(
        workers=[terminated(HOST, 700), launched(HOST, 5)],
        scheduler=[launched("i-2", 5)],
        reports=forged,
        is_over=True,
    )
    assert found.owner == ACCOUNT.owner
    assert found.uses.keys() == {HOST, "i-2"}
    assert (found.uses[HOST].instance_type, found.uses[HOST].type_from) == (None, None)
    assert (found.uses["i-2"].instance_type, found.uses["i-2"].type_from) == (
        "m6i.large",
        "settings",
    )
    assert found.unpriced() == {("m6i.large", "on-demand", None)}


def test_an_account_comes_back_as_it_was_written() -> None:
    whole = see(
        workers=[launched(HOST, 5)],
        workers_spot=[launched("i-2", 5), terminated("i-2", 30)],
        reports=[report(HOST, "m6i.xlarge"), report("i-2", "m7i.xlarge")],
        is_over=True,
    ).with_prices({OFFER: PRICE})
    assert whole.prices == {OFFER: PRICE}
    document = json.loads(json.dumps(whole.to_document()))
    assert read_account(whole.key, document) == whole


def use(start: int, end: int | None, **facts: Any) -> Use:
    found = Use(HOST, "workers", "m6i.xlarge", "aws", "us-east-1a", START + start, None)
    return found._replace(end=None if end is None else START + end, **facts)


@pytest.mark.parametrize(
    ("lived", "span", "seconds"),
    [
        (use(0, 3_600), (), 3_600),
        # A minute at least.
        (use(0, 1), (), 60),
        (use(0, None), (), 7_200),
        (use(0, 3_600), (START + 600, START + 1_200), 600),
        (use(0, 3_600), (START + 3_600,), 0),
        (use(0, 3_600), (0, START), 0),
        (use(0, None), (START + 7_000,), 200),
    ],
)
def test_seconds_are_billed_within_the_span_alone(lived: Use, span: Any, seconds: int) -> None:
    assert billed_seconds(lived, START + 7_200, *span) == seconds


def accounts() -> list[Account]:
    first = replace(
        ACCOUNT,
        ended_at=START + 3_600,
        looked_at=START + 7_200,
        uses={
            HOST: use(0, 3_600),
            "i-2": use(0, 1_800, instance_id="i-2", instance_type="m7i.xlarge"),
            "i-3": use(0, 900, instance_id="i-3", instance_type=None, type_from=None),
        },
        prices={OFFER: PRICE},
    )
    second = replace(
        first,
        run_id="20261124T090000Z-1f3a9d",
        started_at=START + 3_600,
        ended_at=None,
        owner="arn:aws:iam::123456789012:user/bo",
        uses={HOST: use(3_600, None)},
        tags={},
    )
    return [first, second]


def test_a_missing_price_is_missing_and_in_no_amount() -> None:
    costs = costs_of(accounts())
    first, second = costs.rows
    assert (first.key, first.usd, first.unpriced_seconds, first.is_whole) == (
        RUN,
        Decimal("0.192"),
        2_700,
        False,
    )
    assert (second.instance_seconds, second.unpriced_seconds, second.is_going_on) == (
        3_600,
        0,
        True,
    )
    assert first.facts["ended_at"] == "2026-11-24T09:00:00Z"
    assert second.facts["ended_at"] is None
    assert (usd_text(costs.usd), costs.unpriced_seconds) == ("0.3840", 2_700)
    assert costs.sources == {"AWS": (PRICE.as_of, PRICE.as_of)}
    assert json.loads(json.dumps(costs.as_dict()))["rows"][0]["usd"] == "0.1920"


@pytest.mark.parametrize(
    ("by", "keys"),
    [
        ("cluster", {"etl": 2}),
        ("owner", {ACCOUNT.owner: 1, "arn:aws:iam::123456789012:user/bo": 1}),
        ("group", {"etl/workers": 2}),
        ("type", {"m6i.xlarge": 2, "m7i.xlarge": 1, None: 1}),
        ("tag:project", {"forecast": 1, None: 1}),
    ],
)
def test_costs_are_summed_by_what_is_asked(by: str, keys: dict[str | None, int]) -> None:
    costs = costs_of(accounts(), by=by)
    assert {row.key: row.runs for row in costs.rows} == keys
    assert (usd_text(costs.usd), costs.instance_seconds) == ("0.3840", 9_900)


@pytest.mark.parametrize("by", ["tag:", "tag", "price", ""])
def test_what_costs_can_not_be_summed_by_is_refused_with_what_they_can(by: str) -> None:
    with pytest.raises(InvalidInput, match="run, cluster, owner, group, type, or tag:KEY"):
        check_by(by)


def test_a_run_ends_where_its_clusters_next_one_starts() -> None:
    first, second = accounts()
    other = replace(first, cluster="ml", started_at=START + 60)
    assert next_starts([second, other, first]) == {first.key: START + 3_600}


def test_a_price_that_aws_has_not_is_left_out_and_one_that_is_kept_stays() -> None:
    class Prices:
        def look_up(self, keys: Any) -> Quotes:
            key = PriceKey("instance", "us-east-1", "m6i.xlarge", "on-demand")
            assert key in set(keys)
            return Quotes("AWS", {key: Price(Decimal("0.2"), "hour", "2026-12-01T00:00:00Z")})

    keys: list[Any] = [("m6i.xlarge", "on-demand", None), ("m7i.xlarge", "spot", "us-east-1a")]
    found = find_prices(Prices(), "us-east-1", keys)
    assert {offer: price.usd for offer, price in found.items()} == {OFFER: Decimal("0.2")}
    first, _ = accounts()
    assert first.with_prices(found).prices == first.prices
    assert replace(first, prices={}).with_prices(found).prices == found


def test_a_spot_price_is_one_of_a_zone() -> None:
    found = see(
        workers_spot=[{**launched(HOST, 5), "Details": "?"}], reports=[report(HOST, "m6i.xlarge")]
    )
    assert (found.uses[HOST].instance_type, found.uses[HOST].zone) == ("m6i.xlarge", None)
    assert found.unpriced() == set()


def pooled(host: str, way: str, seconds: float, ended: float | None = None) -> dict[str, Any]:
    end = {} if ended is None else {"EndTime": at(ended)}
    text = f"Launching a new EC2 instance {way} warm pool: {host}"
    return {**launched(host, seconds), "Description": text, **end}


def test_a_prepared_host_costs_the_minutes_in_which_it_was_prepared() -> None:
    before = see(workers=[pooled(HOST, "into", 5)], instances=[described(HOST, 9)])
    assert before.uses[HOST][-2:] == (START + 9, None)
    for account in (ACCOUNT, before):
        found = see(
            account,
            workers=[terminated(HOST, 5_000), pooled(HOST, "into", 5, 200)],
            instances=[described(HOST, 9, 5_001)],
            is_over=True,
        )
        assert found.uses[HOST][-2:] == (START + 9, START + 200)
        assert found.is_settled


def test_a_prepared_host_that_is_started_costs_from_then_on() -> None:
    """Also one with the tags of an earlier run, and until its end in the pool's words."""
    drawn = [pooled(HOST, "from", 3_000, 3_020), pooled(HOST, "into", 5, 200)]
    own = see(workers=drawn, instances=[described(HOST, 3_001)])
    assert own.uses[HOST][-2:] == (START + 3_001, None)
    again = see(own, workers=drawn, instances=[described(HOST, 3_001, 4_000)], is_over=True)
    assert again.uses[HOST][-2:] == (START + 3_001, START + 4_000)
    foreign = see(workers=[pooled(HOST, "from", 3_000, 3_020)])
    assert (foreign.uses[HOST].start, foreign.uses[HOST].zone) == (START + 3_000, "us-east-1a")
    ended = {
        **terminated(HOST, 900),
        "Description": f"Terminating EC2 instance from warm pool: {HOST}",
    }
    assert see(workers=[ended, pooled(HOST, "into", 5)], is_over=True).uses[HOST].end == START + 900


def test_what_a_later_run_starts_of_prepared_hosts_is_not_this_runs() -> None:
    found = see(
        workers=[pooled(HOST, "from", 3_000), pooled(HOST, "into", 5, 200)],
        instances=[described(HOST, 3_001)],
        next_start=START + 2_000,
    )
    assert found.uses[HOST][-2:] == (START + 5, START + 200)
