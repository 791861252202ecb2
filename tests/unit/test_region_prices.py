"""The prices of all of a region's instance types: when AWS is asked, and what its answers are taken
for.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from terradask._aws.session import Aws
from terradask._common.disk_cache import DiskCache
from terradask._pricing.price_list import AwsPriceList
from terradask._pricing.prices import PriceKey
from terradask._pricing.products import query_for, read_prices
from terradask.errors import AccessDenied, NoCredentials

START = datetime.datetime(2026, 11, 1, 12, tzinfo=datetime.UTC)


def product(
    name: str, usd: str, *, usage: str | None = None, unit: str = "Hrs", currency: str = "USD"
) -> str:
    rate = {"unit": unit, "pricePerUnit": {currency: usd}}
    attributes = {"instanceType": name, "usagetype": usage or f"BoxUsage:{name}"}
    return json.dumps(
        {
            "product": {"attributes": attributes},
            "terms": {"OnDemand": {"x": {"priceDimensions": {"y": rate}}}},
        }
    )


def spot(
    name: str, zone: str, usd: str, *, hours_ago: float = 0, product: str = "Linux/UNIX"
) -> dict[str, Any]:
    when = START - datetime.timedelta(hours=hours_ago)
    return {
        "InstanceType": name,
        "AvailabilityZone": zone,
        "SpotPrice": usd,
        "Timestamp": when,
        "ProductDescription": product,
    }


class FakeAws:
    """A session whose services answer page by page, or not at all."""

    def __init__(self, region: str = "us-east-1") -> None:
        self.region = region
        self.account_id = "123456789012"
        self.endpoint = "https://api.pricing.us-east-1.amazonaws.com"
        self.error: Exception | None = None
        self.products = [product("m6i.xlarge", "0.192"), product("c7g.large", "0.0725")]
        self.history = [
            spot("m6i.xlarge", "us-east-1a", "0.08"),
            spot("m6i.xlarge", "us-east-1b", "0.07"),
        ]
        self.asked: list[dict[str, Any]] = []

    def client(self, _name: str) -> Any:
        return SimpleNamespace(
            meta=SimpleNamespace(endpoint_url=self.endpoint),
            can_paginate=bool,
            get_paginator=lambda _operation: self,
        )

    def paginate(self, **question: Any) -> list[dict[str, Any]]:
        self.asked.append(question)
        if self.error is not None:
            raise self.error
        if "ServiceCode" in question:
            return [
                {"PriceList": self.products[:1]},
                {"PriceList": []},
                {"PriceList": self.products[1:]},
            ]
        return [{"SpotPriceHistory": self.history[:1]}, {"SpotPriceHistory": self.history[1:]}]


@pytest.fixture
def aws() -> FakeAws:
    return FakeAws()


@pytest.fixture
def clock() -> Any:
    return SimpleNamespace(now=START)


@pytest.fixture
def made(aws: FakeAws, clock: Any, tmp_path: Path) -> Callable[[], AwsPriceList]:
    """What makes a list of prices; all have one cache."""
    session, cache = cast(Aws, aws), DiskCache("prices", tmp_path)
    return lambda: AwsPriceList(session, pricing=session, cache=cache, now=lambda: clock.now)


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
    asked = {one["Field"]: one["Value"] for one in aws.asked[0]["Filters"]}
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
    assert aws.asked[0]["StartTime"] == aws.asked[0]["EndTime"] == START
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


def test_refresh_asks_anew(prices, aws):
    prices.of_region("on-demand")
    aws.products = [product("m6i.xlarge", "0.2")]
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
    "products", [[], ["{"], ["{}"], [product("m6i.xlarge", "0.2", currency="CNY")]]
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
    session = cast(Aws, aws)
    cache = DiskCache("prices", tmp_path)
    sheet = AwsPriceList(session, pricing=session, cache=cache).of_region(market)
    assert says in str(sheet.problem)
    assert aws.asked == []


def test_a_types_own_price_is_told_from_others() -> None:
    readings = read_prices(
        PriceKey("instance", "us-east-1"),
        [
            product("m6i.xlarge", "0.192"),
            product("m6i.xlarge", "0.192", usage="EUW1-BoxUsage:m6i.xlarge"),
            product("m6i.xlarge", "0", usage="Reservation:m6i.xlarge"),
            product("c7g.large", "0.07"),
            product("c7g.large", "0.08"),
            product("t3.micro", "1.5", unit="Quantity"),
            product("r6i.large", "none"),
            product("x1.large", "1", usage="DedicatedUsage:x1.large"),
        ],
    )
    assert {name: one.usd for name, one in readings.items() if one.usd is not None} == {
        "m6i.xlarge": Decimal("0.192")
    }
    problems = {name: str(one.problem) for name, one in readings.items()}
    assert "several prices" in problems["c7g.large"]
    assert "per Quantity" in problems["t3.micro"]
    assert "isn't as AWS documents it" in problems["r6i.large"]
    assert "no such product" in problems["x1.large"]
