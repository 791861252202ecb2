"""Estimates with the prices, launch templates and spot prices of the embedded AWS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import botocore.exceptions
import pytest

from terradask._aws.session import Aws
from terradask._catalog.prices.calculation import estimate
from terradask._catalog.prices.groups import read_launches
from terradask._catalog.prices.price_list import AwsPriceList
from terradask._catalog.prices.prices import PriceKey, Volumes
from terradask._common.disk_cache import DiskCache

pytestmark = pytest.mark.simulator

PLANS = Path(__file__).parents[1] / "unit/data"
DISK = {
    "DeviceName": "/dev/xvda",
    "Ebs": {
        "VolumeType": "gp3",
        "VolumeSize": 40,
        "Encrypted": True,
        "Throughput": 500,
        "Iops": 4000,
    },
}


@pytest.fixture(scope="module")
def aws(network: Any) -> Iterator[Aws]:
    with network.sim.applied():
        yield Aws("us-east-1")


def test_a_cluster_is_priced_from_the_price_list_ec2_and_its_template(
    aws: Aws, network: Any, tmp_path: Path
) -> None:
    template = network.template(BlockDeviceMappings=[DISK])
    plan = json.loads(
        (PLANS / "cost_cluster.json").read_text().replace("lt-dac4ed09721b65e03", template)
    )
    hosts = read_launches(aws, plan)
    assert [(launch.volumes, launch.public_address) for launch in hosts.values()] == [
        (Volumes(40, 375, 1000), True)
    ]
    cost = estimate(plan, AwsPriceList(aws, cache=DiskCache("prices", tmp_path)), hosts=hosts)
    # The scheduler's template isn't there.
    assert {(item.address, item.what) for item in cost.unpriced} == {
        ("aws_autoscaling_group.scheduler", "volume"),
        ("aws_autoscaling_group.scheduler", "public IPv4 address"),
    }
    workers = {
        item.what: item.desired_hourly_usd
        for item in cost.items
        if item.address.endswith(".workers") and item.counted
    }
    # 4 vCPUs at 0.03, 16 GiB at 0.004; 40 GB at 0.1, 375 of 1024 MiB/s at 51.2 and 1000 IOPS at
    # 0.006 a month; an address at 0.006: pricing.toml.
    assert workers == {
        "m6i.xlarge (Linux, on-demand), the dearest of 2 types": 4 * Decimal("0.184"),
        "gp3 volume, 40 GiB": 4 * Decimal("0.0054794521"),
        "gp3 throughput, 375 MiB/s more": 4 * Decimal("0.0256849315"),
        "gp3 IOPS, 1000 more": 4 * Decimal("0.0082191781"),
        "public IPv4 address": 4 * Decimal("0.006"),
    }
    (spot,) = [
        item for item in cost.items if item.address.endswith(".workers") and item.market == "spot"
    ]
    assert spot.unit_hourly_usd == Decimal("0.0736")
    assert "made-up" in cost.source
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("region", ["us-east-1", "eu-central-1", "sa-east-1"])
def test_every_product_has_one_price_in_every_region(aws: Aws, region: str) -> None:
    kinds = (
        "nat-gateway",
        "public-ipv4",
        "interface-endpoint",
        "gp3-storage",
        "gp3-throughput",
        "gp3-iops",
        "secret",
        "custom-metric",
    )
    keys = [PriceKey(kind, region) for kind in kinds] + [
        PriceKey("instance", region, "g5.xlarge", "on-demand")
    ]
    quotes = AwsPriceList(aws).look_up(keys)
    assert quotes.problems == {}
    assert [str(quotes.prices[key].usd.normalize()) for key in keys[:8]] == [
        "0.06",
        "0.006",
        "0.012",
        "0.1",
        "51.2",
        "0.006",
        "0.5",
        "0.4",
    ]


def test_a_type_that_there_is_not_has_no_price(aws: Aws) -> None:
    keys = [
        PriceKey("instance", "us-east-1", "m99.huge", "on-demand"),
        PriceKey("instance", "us-east-1", "m99.huge", "spot", "us-east-1a"),
    ]
    quotes = AwsPriceList(aws).look_up(keys)
    assert quotes.prices == {}
    assert list(quotes.problems.values()) == [
        "the price list has no such product",
        "there is no spot price in this zone",
    ]


def test_the_price_list_answers_page_by_page(network: Any) -> None:
    pricing = network.client("pricing")
    pages = list(
        pricing.get_paginator("get_products").paginate(
            ServiceCode="AmazonVPC", PaginationConfig={"PageSize": 5}
        )
    )
    found = [json.loads(entry) for page in pages for entry in page["PriceList"]]
    assert [len(page["PriceList"]) for page in pages] == [5, 5, 5, 5, 4]
    assert len({entry["product"]["sku"] for entry in found}) == 24
    assert {entry["serviceCode"] for entry in found} == {"AmazonVPC"}


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"ServiceCode": "AmazonMars"}, "InvalidParameterException"),
        ({"ServiceCode": "AmazonVPC", "NextToken": "?"}, "InvalidNextTokenException"),
        (
            {
                "ServiceCode": "AmazonVPC",
                "Filters": [{"Type": "CONTAINS", "Field": "usagetype", "Value": "Nat"}],
            },
            "InvalidParameterException",
        ),
    ],
)
def test_the_price_list_refuses_as_aws_does(network: Any, query: dict[str, Any], code: str) -> None:
    with pytest.raises(botocore.exceptions.ClientError, match=code):
        network.client("pricing").get_products(**query)
