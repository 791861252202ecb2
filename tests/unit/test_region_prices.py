"""The prices of all of a region's instance types: when AWS is asked, and what its answers are taken
for.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from terradask._catalog.prices.price_list import AwsPriceList
from terradask._catalog.prices.prices import PriceKey
from terradask._catalog.prices.products import query_for, read_prices
from terradask.errors import AccessDenied, NoCredentials

from .price_facts import START, Clock, FakeAws, instance, price_list, spot


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def aws() -> FakeAws:
    return FakeAws()


@pytest.fixture
def made(aws: FakeAws, clock: Clock, tmp_path: Path) -> Callable[[], AwsPriceList]:
    """What makes a list of prices; all have one cache."""
    return lambda: price_list(aws, tmp_path, clock)


@pytest.fixture
def prices(made: Callable[[], AwsPriceList]) -> AwsPriceList:
    return made()


def test_prices_on_demand_come_in_one_question_and_are_kept_for_a_week(made, aws, clock):
    for prices in (made(), made()):
        sheet = prices.of_region("on-demand")
    assert sheet.usd == {
        "us-east-1": {"m6i.xlarge": Decimal("0.192"), "c7g.large": Decimal("0.0725")}
    }
    assert (sheet.source, sheet.as_of, sheet.problem) == ("AWS Price List API", START, None)
    assert len(aws.asked) == 1
    asked = {one["Field"]: one["Value"] for one in aws.questions[0]["Filters"]}
    assert asked == dict(query_for(PriceKey("instance", "us-east-1")).filters)
    assert "instanceType" not in asked
    clock.now += datetime.timedelta(days=7)
    prices.of_region("on-demand")
    assert len(aws.asked) == 2


def test_spot_prices_are_those_of_each_zone_and_kept_for_an_hour(made, aws, clock):
    for prices in (made(), made()):
        sheet = prices.of_region("spot")
    assert sheet.usd == {
        "us-east-1a": {"m6i.xlarge": Decimal("0.08")},
        "us-east-1b": {"m6i.xlarge": Decimal("0.07")},
    }
    assert sheet.source == "EC2"
    assert len(aws.asked) == 1
    assert aws.questions[0]["StartTime"] == aws.questions[0]["EndTime"] == START
    clock.now += datetime.timedelta(hours=1)
    prices.of_region("spot")
    assert len(aws.asked) == 2


def test_the_newest_spot_price_counts_and_none_where_two_are(prices, aws):
    aws.history = [
        spot("m6i.xlarge", "us-east-1a", "0.08", hours_ago=2),
        spot("m6i.xlarge", "us-east-1a", "0.09"),
        spot("m6i.xlarge", "us-east-1a", "0.30", product="Windows"),
        spot("c7g.large", "us-east-1a", "0.03"),
        spot("c7g.large", "us-east-1a", "0.04", product="Linux/UNIX (Amazon VPC)"),
    ]
    assert prices.of_region("spot").usd == {"us-east-1a": {"m6i.xlarge": Decimal("0.09")}}


def test_an_answer_of_another_shape_has_no_prices(prices, aws):
    aws.history = [{}]
    assert "isn't in AWS's documented format" in str(prices.of_region("spot").problem)


def test_refresh_asks_anew(prices, aws):
    prices.of_region("on-demand")
    aws.products = [instance("m6i.xlarge", "0.2")]
    assert prices.of_region("on-demand").usd["us-east-1"]["m6i.xlarge"] == Decimal("0.192")
    assert prices.of_region("on-demand", refresh=True).usd == {
        "us-east-1": {"m6i.xlarge": Decimal("0.2")}
    }


@pytest.mark.parametrize(
    "error",
    [AccessDenied("pricing:GetProducts", "no"), NoCredentials("AWS refuses pricing:GetProducts")],
)
def test_without_an_answer_old_prices_are_used_and_said_to_be(prices, aws, clock, error):
    aws.error = error
    none = prices.of_region("on-demand")
    assert (none.usd, none.as_of, none.problem) == ({}, None, "AWS refuses pricing:GetProducts")
    aws.error = None
    prices.of_region("on-demand")
    clock.now += datetime.timedelta(days=30)
    aws.error = error
    old = prices.of_region("on-demand")
    assert old.usd["us-east-1"]["m6i.xlarge"] == Decimal("0.192")
    assert (old.as_of, old.problem) == (START, "AWS refuses pricing:GetProducts")


@pytest.mark.parametrize(
    "products", [[], ["{"], ["{}"], [instance("m6i.xlarge", "0.2", currency="CNY")]]
)
def test_an_answer_without_prices_is_not_kept(prices, aws, tmp_path, products):
    aws.products = products
    sheet = prices.of_region("on-demand")
    assert sheet.as_of is None
    assert sheet.problem
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "[]",
        "null",
        '{"format": 9}',
        '{"key": "instance spot us-east-1"}',
        '{"as_of": null}',
        '{"as_of": "2026-11-01"}',
        '{"usd": []}',
        '{"usd": {"us-east-1": {"m6i.xlarge": "NaN"}}}',
        '{"usd": {"us-east-1": {"m6i.xlarge": "-1"}}}',
        '{"usd": {"us-east-1": {"m6i.xlarge": "x"}}}',
    ],
)
def test_a_damaged_file_is_no_file(made, aws, tmp_path, damage):
    first = made().of_region("on-demand")
    (file,) = tmp_path.rglob("*.json")
    whole = json.loads(file.read_text())
    file.write_text(
        json.dumps({**whole, **json.loads(damage)}) if damage.startswith('{"') else damage
    )
    assert made().of_region("on-demand") == first
    assert len(aws.asked) == 2


def test_prices_of_an_endpoint_on_this_machine_are_never_kept(prices, aws, tmp_path):
    aws.endpoint = "http://127.0.0.1:4566"
    for market in ("on-demand", "spot"):
        assert "made-up" in prices.of_region(market).source
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.parametrize(
    ("region", "market", "says"),
    [("cn-north-1", "spot", "yuan"), ("us-gov-west-1", "on-demand", "GovCloud")],
)
def test_partitions_without_prices_are_not_asked(tmp_path, region, market, says):
    aws = FakeAws(region)
    sheet = price_list(aws, tmp_path).of_region(market)
    assert says in str(sheet.problem)
    assert aws.asked == []


def test_a_types_own_price_is_told_from_others() -> None:
    readings = read_prices(
        PriceKey("instance", "us-east-1"),
        [
            instance("m6i.xlarge", "0.192"),
            instance("m6i.xlarge", "0.192", usage="EUW1-BoxUsage:m6i.xlarge"),
            instance("m6i.xlarge", "0", usage="Reservation:m6i.xlarge"),
            instance("c7g.large", "0.07"),
            instance("c7g.large", "0.08"),
            instance("t3.micro", "1.5", unit="Quantity"),
            instance("r6i.large", "none"),
            instance("x1.large", "1", usage="DedicatedUsage:x1.large"),
        ],
    )
    assert {name: one.usd for name, one in readings.items() if one.usd is not None} == {
        "m6i.xlarge": Decimal("0.192")
    }
    problems = {name: str(one.problem) for name, one in readings.items()}
    assert "several prices" in problems["c7g.large"]
    assert "per Quantity" in problems["t3.micro"]
    assert "isn't in AWS's documented format" in problems["r6i.large"]
    assert "no such product" in problems["x1.large"]
