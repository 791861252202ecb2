"""When AWS is asked, when the cache is used, and what happens when AWS doesn't answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from terradask._catalog.prices.price_list import AwsPriceList, pricing_region
from terradask._catalog.prices.prices import Price, PriceKey
from terradask.errors import AccessDenied

from .price_facts import AWS, Clock, FakeAws, price_list

NAT = PriceKey("nat-gateway", "us-east-1")
SECRET = PriceKey("secret", "us-east-1")
SPOT = PriceKey("instance", "us-east-1", "m6i.xlarge", "spot", "us-east-1a")


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


@pytest.mark.parametrize("one_list", [True, False])
def test_aws_is_asked_once_a_week_and_for_spot_once_an_hour(made, aws, clock, one_list):
    prices = made()
    quotes = prices.look_up([NAT, SPOT, NAT])
    prices = prices if one_list else made()
    assert prices.look_up([NAT, SPOT, NAT]) == quotes
    assert quotes.prices[NAT] == Price(Decimal("0.05"), "hour", "2026-11-01T12:00:00+00:00")
    assert quotes.source == "AWS Price List API, EC2 for spot"
    assert prices.look_up([NAT]).source == "AWS Price List API"
    assert aws.asked == ["AmazonEC2", "spot"]
    clock.pass_by(hours=1)
    prices.look_up([NAT, SPOT])
    assert aws.asked == ["AmazonEC2", "spot", "spot"]
    clock.pass_by(days=7)
    aws.price = "0.06"
    assert prices.look_up([NAT]).prices[NAT].usd == Decimal("0.06")


def test_spot_prices_of_a_zone_come_in_one_answer(prices, aws):
    keys = [
        PriceKey("instance", "us-east-1", name, "spot", "us-east-1a")
        for name in ("m6i.xlarge", "m5.xlarge")
    ]
    assert set(prices.look_up(keys).prices) == set(keys)
    assert aws.asked == ["spot"]


def test_a_price_from_the_future_is_asked_for_again(prices, aws, clock):
    prices.look_up([NAT])
    clock.pass_by(hours=-1)
    prices.look_up([NAT])
    assert len(aws.asked) == 2


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        '{"format": 1}',
        '{"usd": {"us-east-1": {"nat-gateway": "NaN"}}}',
        '{"usd": {"us-east-1": {"nat-gateway": "-1"}}}',
        '{"as_of": "yesterday"}',
        '{"key": "other"}',
        '{"usd": {}}',
        '{"usd": {"us-east-1": {"secret": "0.05"}}}',
    ],
)
def test_a_corrupt_cache_is_no_cache(made, aws, tmp_path, content):
    made().look_up([NAT])
    (file,) = tmp_path.rglob("*.json")
    whole = json.loads(file.read_text())
    file.write_text(
        json.dumps({**whole, **json.loads(content)}) if content.startswith('{"') else content
    )
    assert made().look_up([NAT]).prices[NAT].usd == Decimal("0.05")
    assert len(aws.asked) == 2
    assert json.loads(file.read_text()) == whole
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_without_an_answer_old_prices_are_used_and_said_to_be(prices, aws, clock):
    prices.look_up([NAT])
    clock.pass_by(days=30)
    aws.error = AccessDenied("pricing:GetProducts", "no")
    quotes = prices.look_up([NAT, SECRET])
    assert quotes.prices[NAT].as_of.startswith("2026-11-01")
    assert quotes.notes == (
        "AWS didn't answer, prices of 2026-11-01 are used: AWS refuses pricing:GetProducts",
    )
    assert quotes.problems == {SECRET: "AWS refuses pricing:GetProducts"}


def test_who_refuses_once_is_not_asked_again(prices, aws):
    aws.error = AccessDenied("pricing:GetProducts", "no")
    assert set(prices.look_up([NAT, SECRET]).problems) == {NAT, SECRET}
    assert aws.asked == ["AmazonEC2"]


def test_without_credentials_the_cache_answers_and_nothing_is_raised(made, aws, clock, monkeypatch):
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    made().look_up([NAT])
    aws.without_credentials = True
    prices = made()
    assert prices.look_up([NAT]).notes == ()
    clock.pass_by(days=8)
    quotes = prices.look_up([NAT, SECRET])
    assert "there are no AWS credentials" in quotes.notes[0]
    assert quotes.problems == {SECRET: "there are no AWS credentials"}


def test_what_botocore_raises_is_a_reason_too(prices, aws):
    from botocore.exceptions import ReadTimeoutError

    aws.error = ReadTimeoutError(endpoint_url=AWS)
    assert "timeout" in prices.look_up([NAT]).problems[NAT].lower()


def test_prices_of_an_endpoint_on_this_machine_are_never_kept_on_disk(aws, tmp_path, prices):
    aws.endpoint = "http://127.0.0.1:4566"
    quotes = prices.look_up([NAT])
    assert "made-up" in quotes.source
    assert list(tmp_path.rglob("*")) == []
    # What was asked ahead of time isn't asked again.
    assert prices.look_up([NAT, SPOT]).prices[NAT] == quotes.prices[NAT]
    assert aws.asked == ["AmazonEC2", "spot"]


def test_prices_of_endpoints_do_not_mix(aws, made):
    aws.endpoint = "http://aws.example.com:4566"
    aws.price = "99"
    assert "not AWS's" in made().look_up([NAT]).source
    aws.endpoint, aws.price = AWS, "0.05"
    assert made().look_up([NAT]).prices[NAT].usd == Decimal("0.05")


def test_spot_prices_of_accounts_do_not_mix(aws, made):
    """An account's us-east-1a may be another's us-east-1b."""
    made().look_up([NAT, SPOT])
    aws.account_id, aws.price = "210987654321", "99"
    quotes = made().look_up([NAT, SPOT])
    assert [quotes.prices[key].usd for key in (NAT, SPOT)] == [Decimal("0.05"), Decimal(99)]


def test_a_spot_price_of_no_zone_is_none(prices, aws):
    key = PriceKey("instance", "us-east-1", "m6i.xlarge", "spot")
    assert prices.look_up([key]).problems == {key: "there is no spot price in this zone"}
    assert aws.asked == ["spot"]


def test_a_cache_that_cannot_be_written_is_left_out(aws, clock, tmp_path):
    (tmp_path / "file").write_text("")
    prices = price_list(aws, tmp_path / "file", clock)
    assert prices.look_up([NAT]).prices[NAT].usd == Decimal("0.05")


@pytest.mark.parametrize(
    ("region", "market", "says"),
    [
        ("cn-north-1", None, "yuan"),
        ("cn-north-1", "spot", "yuan"),
        ("us-gov-west-1", None, "GovCloud"),
        ("us-iso-east-1", None, "partition"),
    ],
)
def test_partitions_without_a_price_list_are_not_asked(prices, aws, region, market, says):
    key = PriceKey("instance", region, "m6i.xlarge", market, f"{region}a" if market else None)
    assert says in prices.look_up([key]).problems[key]
    assert aws.asked == []


def test_govcloud_tells_spot_prices(prices):
    key = PriceKey("instance", "us-gov-west-1", "m6i.xlarge", "spot", "us-gov-west-1a")
    assert key in prices.look_up([key]).prices


def test_the_nearest_price_list_is_asked():
    regions = ["us-west-2", "ca-central-1", "eu-north-1", "af-south-1", "ap-southeast-2"]
    assert [pricing_region(region) for region in regions] == [
        "us-east-1",
        "us-east-1",
        "eu-central-1",
        "eu-central-1",
        "ap-south-1",
    ]
