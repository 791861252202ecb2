"""Estimates: sums that add up, prices that are missing and say so, tables."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terradask._catalog.prices.calculation import estimate
from terradask._catalog.prices.groups import HostLaunch, TemplateVersion
from terradask._catalog.prices.prices import (
    CostEstimate,
    CostItem,
    Price,
    PriceKey,
    Quotes,
    Volumes,
)
from terradask.cost import to_text

DATA = Path(__file__).with_name("data")
HOSTS = {
    TemplateVersion("lt-99c4e28c223614a20", "1"): HostLaunch("m6i.xlarge", Volumes(50), True),
    TemplateVersion("lt-dac4ed09721b65e03", "1"): HostLaunch("m6i.xlarge", Volumes(100), False),
}
PRICES = {
    "nat-gateway": Price(Decimal("0.05"), "hour", "2026-11-20T08:00:00+00:00"),
    "public-ipv4": Price(Decimal("0.005"), "hour", "2026-11-20T08:00:00+00:00"),
    "interface-endpoint": Price(Decimal("0.01"), "hour", "2026-11-18T08:00:00+00:00"),
    "gp3-storage": Price(Decimal("0.073"), "GB-month", "2026-11-20T08:00:00+00:00"),
    "secret": Price(Decimal("0.73"), "month", "2026-11-20T08:00:00+00:00"),
    "m6i.xlarge": Price(Decimal("0.20"), "hour", "2026-11-20T08:00:00+00:00"),
    "m5.xlarge": Price(Decimal("0.25"), "hour", "2026-11-20T08:00:00+00:00"),
}


class FixedPrices:
    """A list of prices that has them all, but for those that it is told to lack; spot is half of
    it.
    """

    def __init__(self, *lacking: str) -> None:
        self._lacking = lacking

    def look_up(self, keys: Iterable[PriceKey]) -> Quotes:
        prices, problems = {}, {}
        for key in keys:
            name = key.instance_type or key.product
            if name in self._lacking:
                problems[key] = "the price list has no such product"
            else:
                price = PRICES[name]
                prices[key] = (
                    Price(price.usd / 2, "hour", price.as_of) if key.market == "spot" else price
                )
        return Quotes("a test's price list", prices, problems)


def plan(name: str) -> dict[str, Any]:
    return json.loads((DATA / f"cost_{name}.json").read_text())


@pytest.fixture
def network() -> CostEstimate:
    return estimate(plan("network"), FixedPrices())


@pytest.fixture
def cluster() -> CostEstimate:
    return estimate(plan("cluster"), FixedPrices(), hosts=HOSTS)


def test_a_network_costs_the_same_whatever_runs(network):
    expected = Decimal("0.05") + Decimal("0.005") + 12 * Decimal("0.01")
    assert (
        network.desired_hourly_usd
        == network.maximum_hourly_usd
        == network.stopped_hourly_usd
        == expected
    )
    assert (network.problem, network.unpriced, network.region) == (None, (), "us-east-1")
    assert network.source == "a test's price list"


def test_the_oldest_price_gives_the_day(network, cluster):
    assert network.priced_at == "2026-11-18"
    assert cluster.priced_at == "2026-11-20"


def test_a_cluster_counts_the_dearest_type_on_demand(cluster):
    scheduler = Decimal("0.20") + 50 * Decimal("0.0001") + Decimal("0.005")
    worker = Decimal("0.25") + 100 * Decimal("0.0001")
    assert cluster.stopped_hourly_usd == Decimal("0.001")
    assert cluster.desired_hourly_usd == scheduler + 4 * worker + Decimal("0.001")
    assert cluster.maximum_hourly_usd == scheduler + 10 * worker + Decimal("0.001")
    kinds = {
        item.what: (item.counted, item.market)
        for item in cluster.items
        if item.address == "aws_autoscaling_group.workers"
    }
    assert kinds == {
        "m5.xlarge (Linux, on-demand), the dearest of 2 types": (True, "on-demand"),
        "m6i.xlarge (Linux, on-demand), the cheapest": (False, "on-demand"),
        "m5.xlarge (Linux, spot), the dearest of 2 types": (False, "spot"),
        "m6i.xlarge (Linux, spot), the cheapest": (False, "spot"),
        "gp3 volume, 100 GiB": (True, None),
    }


def test_while_one_types_price_is_missing_the_dearest_is_not_known():
    cost = estimate(plan("cluster"), FixedPrices("m6i.xlarge"), hosts=HOSTS)
    assert [item.address for item in cost.unpriced] == [
        "aws_autoscaling_group.scheduler",
        "aws_autoscaling_group.workers",
    ]
    assert "no price of instance m6i.xlarge on-demand us-east-1" in str(cost.problem)
    assert cost.desired_hourly_usd < Decimal("0.1")


def test_a_missing_price_is_no_zero():
    cost = estimate(plan("network"), FixedPrices("nat-gateway"))
    (item,) = cost.unpriced
    assert item.what == "NAT gateway"
    assert item.desired_hourly_usd is None
    assert "no such product" in str(cost.problem)
    assert cost.as_dict()["unpriced"] == ["aws_nat_gateway.nat-us-east-1a: NAT gateway"]


def test_a_reason_that_holds_for_many_prices_is_said_once():
    class Silent(FixedPrices):
        def look_up(self, keys: Iterable[PriceKey]) -> Quotes:
            return Quotes("a test's price list", {}, dict.fromkeys(keys, "AWS doesn't answer"))

    network, cluster = (
        estimate(plan("network"), Silent()),
        estimate(plan("cluster"), Silent(), hosts=HOSTS),
    )
    assert (
        str(network.problem).count("doesn't answer")
        == str(cluster.problem).count("doesn't answer")
        == 1
    )
    assert str(network.problem).startswith(
        "no price of public-ipv4 us-east-1, nat-gateway us-east-1, "
    )
    assert all(str(item.note).count("doesn't answer") == 1 for item in cluster.unpriced)
    assert " and 2 more: AWS doesn't answer" in str(cluster.problem)


def test_a_missing_spot_price_leaves_the_totals_whole(cluster):
    class WithoutSpot(FixedPrices):
        def look_up(self, keys: Iterable[PriceKey]) -> Quotes:
            quotes = super().look_up(keys)
            return Quotes(
                quotes.source,
                {key: price for key, price in quotes.prices.items() if key.market != "spot"},
            )

    cost = estimate(plan("cluster"), WithoutSpot(), hosts=HOSTS)
    assert cost.problem is None
    assert cost.desired_hourly_usd == cluster.desired_hourly_usd


def test_a_plan_without_a_region_says_so():
    document = plan("network")
    del document["configuration"]
    assert "region" in str(estimate(document, FixedPrices()).problem)
    assert estimate(document, FixedPrices(), region="us-east-1").region == "us-east-1"


money = st.one_of(
    st.none(), st.decimals("0", "1000", allow_nan=False, allow_infinity=False, places=10)
)
items = st.builds(
    CostItem,
    address=st.sampled_from(["aws_eip.a", "aws_eip.b"]),
    what=st.just("thing"),
    unit_hourly_usd=money,
    desired=st.integers(0, 1000),
    maximum=st.integers(0, 10_000),
    while_stopped=st.booleans(),
    counted=st.booleans(),
)


@given(st.lists(items, max_size=8), st.randoms())
def test_totals_are_the_sums_of_what_is_counted_in_any_order(listed, random):
    cost = CostEstimate("us-east-1", "s", "2026-11-20", tuple(listed))
    counted = [item for item in listed if item.counted and item.unit_hourly_usd is not None]
    assert cost.desired_hourly_usd == sum(item.unit_hourly_usd * item.desired for item in counted)
    assert cost.maximum_hourly_usd == sum(item.unit_hourly_usd * item.maximum for item in counted)
    assert cost.stopped_hourly_usd == sum(
        item.unit_hourly_usd * item.desired for item in counted if item.while_stopped
    )
    assert len(cost.unpriced) + len(counted) == sum(item.counted for item in listed)
    parts = cost.by_resource().values()
    assert sum(part.desired_hourly_usd for part in parts) == cost.desired_hourly_usd
    assert sum(part.maximum_hourly_usd for part in parts) == cost.maximum_hourly_usd
    random.shuffle(listed)
    shuffled = CostEstimate("us-east-1", "s", "2026-11-20", tuple(listed))
    assert shuffled.as_dict()["desired_hourly_usd"] == cost.as_dict()["desired_hourly_usd"]
    assert isinstance(cost.desired_hourly_usd, Decimal)


def test_json_has_prices_as_text(cluster):
    document = json.loads(json.dumps(cluster.as_dict()))
    assert document["desired_hourly_usd"] == "1.251"
    assert document["desired_monthly_usd"] == "913.23"
    assert document["stopped_monthly_usd"] == "0.73"
    assert document["currency"] == "USD"
    assert document["resources"]["aws_secretsmanager_secret.keys"]["desired_monthly_usd"] == "0.73"
    assert document["resources"]["aws_autoscaling_group.workers"]["stopped_hourly_usd"] == "0"
    assert document["items"][-1]["maximum_monthly_usd"] == "0.73"
    assert pickle.loads(pickle.dumps(cluster)) == cluster


def test_text_has_a_line_for_each_item_the_totals_the_source_and_the_day(cluster):
    lines = to_text(cluster).splitlines()
    heads = re.split("  +", lines[0])
    assert heads == [
        *("resource", "what", "desired", "maximum"),
        *("$ an hour", "$ a month", "$ a month at maximum"),
    ]
    assert sum(line.startswith("aws_") for line in lines) == len(cluster.items)
    total = next(line for line in lines if line.startswith("total")).split()
    assert total == ["total", "1.2510", "913.23", "2,052.03"]
    assert next(line for line in lines if line.startswith("while stopped")).split()[2:] == [
        "0.0010",
        "0.73",
        "0.73",
    ]
    remarks = lines[lines.index("") + 1 :]
    assert "a test's price list, 2026-11-20; us-east-1" in remarks[0]
    assert remarks[1:] == ["secret: and each call"]


def test_tables_say_what_has_no_price():
    cost = estimate(plan("network"), FixedPrices("nat-gateway"))
    assert "total of what has a price" in to_text(cost)
    assert (
        "No price: aws_nat_gateway.nat-us-east-1a, NAT gateway: no price of nat-gateway us-east-1"
        in to_text(cost)
    )
    assert "by use" in to_text(cost)
