"""How the price list's answers are read: one price or none, never a choice."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any

import pytest

from terradask._catalog.prices.price_list import read_spot_price
from terradask._catalog.prices.prices import Price, PriceKey
from terradask._catalog.prices.products import query_for, read_price

NAT = query_for(PriceKey("nat-gateway", "eu-west-1"))


def entry(
    usage_type: str = "EU-NatGateway-Hours", *dimensions: tuple[str | None, str], **more: Any
) -> str:
    """A product in the shape of AWS's example of ``aws pricing get-products``."""
    rates = {
        f"A.B.{number}": {
            "unit": unit,
            "pricePerUnit": {} if usd is None else {"USD": usd},
            "beginRange": str(number),
        }
        for number, (usd, unit) in enumerate(dimensions or [("0.0480000000", "Hrs")])
    }
    terms = {"OnDemand": {"A.B": {"priceDimensions": rates, "sku": "A", "offerTermCode": "B"}}}
    return json.dumps(
        {"product": {"attributes": {"usagetype": usage_type}, "sku": "A"}, "terms": terms, **more}
    )


@pytest.mark.parametrize(
    "usage_type", ["NatGateway-Hours", "EU-NatGateway-Hours", "eu-west-1-NatGateway-Hours"]
)
def test_the_regions_prefix_does_not_matter(usage_type):
    assert read_price(NAT, [entry(usage_type)]).usd == Decimal("0.048")


def test_other_products_of_the_answer_are_left_out():
    others = [
        entry("EU-RegionalNatGateway-Hours", ("9", "Hrs")),
        entry("EU-NatGateway-Bytes", ("9", "GB")),
        entry("EU-NatGateway-Hours-X"),
    ]
    assert read_price(NAT, [*others, entry()]).usd == Decimal("0.048")
    assert "no such product" in str(read_price(NAT, others).problem)


def test_the_same_price_twice_is_one_price():
    assert read_price(NAT, [entry(), entry("NatGateway-Hours", ("0.048", "Hrs"))]).usd == Decimal(
        "0.048"
    )


@pytest.mark.parametrize(
    "entries",
    [
        [entry("NatGateway-Hours", ("0.05", "Hrs"), ("0.04", "Hrs"))],
        [entry("NatGateway-Hours", ("0.05", "Hrs")), entry("EU-NatGateway-Hours", ("0.06", "Hrs"))],
        [entry("NatGateway-Hours", ("0.05", "Hrs"), ("0", "Hrs"))],
        [entry("NatGateway-Hours", ("0.05", "Hrs"), ("0.05", "GB"))],
    ],
)
def test_several_prices_are_refused(entries):
    reading = read_price(NAT, entries)
    assert reading.usd is None
    assert "none is chosen" in str(reading.problem)


METRIC = query_for(PriceKey("custom-metric", "eu-west-1"))


def metric(*steps: tuple[str | None, str], begin: int = 0) -> str:
    """A metric's price by steps of use, the first from `begin` on, and in any order."""
    made = json.loads(entry("EU-CW:MetricMonitorUsage", *steps))
    rates = made["terms"]["OnDemand"]["A.B"]["priceDimensions"]
    for number, rate in enumerate(rates.values()):
        rate["beginRange"] = str(begin + number * 10_000)
    made["terms"]["OnDemand"]["A.B"]["priceDimensions"] = dict(reversed(rates.items()))
    return json.dumps(made)


def test_of_a_price_that_falls_with_use_the_first_step_counts():
    falling = metric(("0.30", "Metrics"), ("0.10", "Metrics"), ("0.02", "Metrics"))
    assert read_price(METRIC, [falling]).usd == Decimal("0.30")
    assert read_price(METRIC, [metric(("0.30", "Metrics"))]).usd == Decimal("0.30")


@pytest.mark.parametrize(
    "answer",
    [
        metric(("0.10", "Metrics"), ("0.30", "Metrics")),
        metric(("0", "Metrics"), ("0.30", "Metrics")),
        metric(("0.30", "Metrics"), ("0.10", "Requests")),
        metric(("0.30", "Metrics"), (None, "Metrics")),
        metric(("0.30", "Metrics"), ("0.10", "Metrics"), begin=10),
    ],
)
def test_steps_that_give_no_upper_bound_are_refused(answer):
    assert "none is chosen" in str(read_price(METRIC, [answer]).problem)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (entry("NatGateway-Hours", ("0.05", "GB")), "per GB, not per hour"),
        (entry("NatGateway-Hours", (None, "Hrs")), "no price in US dollars"),
        (entry("NatGateway-Hours", ("NaN", "Hrs")), "isn't in AWS's documented format"),
        (entry("NatGateway-Hours", ("-1", "Hrs")), "isn't in AWS's documented format"),
        (entry("NatGateway-Hours", ("dear", "Hrs")), "isn't in AWS's documented format"),
        ("{}", "isn't in AWS's documented format"),
        ("[]", "isn't in AWS's documented format"),
        ("{", "isn't in AWS's documented format"),
    ],
)
def test_what_cannot_be_read_has_no_price(answer, says):
    reading = read_price(NAT, [answer])
    assert reading.usd is None
    assert says in str(reading.problem)


def test_instances_are_asked_for_as_linux_on_shared_hardware_without_reservations():
    query = query_for(PriceKey("instance", "eu-west-1", "m6i.xlarge", "on-demand"))
    assert query.service == "AmazonEC2"
    assert query.filters["regionCode"] == "eu-west-1"
    assert (
        query.filters["operatingSystem"],
        query.filters["tenancy"],
        query.filters["capacitystatus"],
    ) == ("Linux", "Shared", "Used")
    assert read_price(
        query, [entry("EU-BoxUsage:m6i.xlarge"), entry("EU-UnusedBox:m6i.xlarge", ("9", "Hrs"))]
    ).usd == Decimal("0.048")


def test_a_month_has_730_hours():
    assert Price(Decimal("0.4"), "month", "").hourly_usd() == Decimal("0.0005479452")
    assert Price(Decimal("0.08"), "GB-month", "").hourly_usd(Decimal(100)) == Decimal(
        "0.0109589041"
    )
    assert Price(Decimal("0.045"), "hour", "").hourly_usd() == Decimal("0.0450000000")


def spot(
    hour: int, price: str, description: str = "Linux/UNIX", instance_type: str = "m6i.xlarge"
) -> dict[str, Any]:
    at = datetime.datetime(2026, 11, 20, hour, tzinfo=datetime.UTC)
    return {
        "InstanceType": instance_type,
        "ProductDescription": description,
        "SpotPrice": price,
        "Timestamp": at,
    }


def test_the_newest_spot_price_of_linux_counts():
    entries = [
        spot(7, "0.09"),
        spot(8, "0.07"),
        spot(8, "0.070000", "Linux/UNIX (Amazon VPC)"),
        spot(9, "0.2", "Windows"),
    ]
    assert read_spot_price("m6i.xlarge", entries).usd == Decimal("0.07")
    assert "no spot price" in str(read_spot_price("m5.xlarge", entries).problem)
    assert "none is chosen" in str(
        read_spot_price("m6i.xlarge", [spot(8, "0.07"), spot(8, "0.08")]).problem
    )
    assert "isn't a number" in str(read_spot_price("m6i.xlarge", [spot(8, "cheap")]).problem)
