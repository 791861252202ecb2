"""Instance types, zones and prices of the embedded AWS, page by page as of AWS."""

from __future__ import annotations

from typing import Any

import botocore.exceptions
import pytest

from terradask._aws.session import Aws
from terradask._catalog.prices.price_list import AwsPriceList

pytestmark = pytest.mark.simulator


def test_types_zones_and_prices_come_page_by_page(network: Any) -> None:
    ec2 = network.client("ec2")
    wanted = [{"Name": "instance-type", "Values": ["m6i.*", "c7g.*", "m5.xlarge"]}]
    pages = [
        page["InstanceTypes"]
        for page in ec2.get_paginator("describe_instance_types").paginate(
            MaxResults=5, Filters=wanted
        )
    ]
    names = [one["InstanceType"] for page in pages for one in page]
    assert {len(page) for page in pages[:-1]} == {5}
    assert len(names) == len(set(names)) > 15
    offerings = ec2.get_paginator("describe_instance_type_offerings").paginate(
        LocationType="availability-zone"
    )
    sizes = [len(page["InstanceTypeOfferings"]) for page in offerings]
    assert set(sizes[:-1]) == {1000}
    for question in ({"MaxResults": 101}, {"NextToken": "?"}, {"InstanceTypes": ["m99.huge"]}):
        with pytest.raises(
            botocore.exceptions.ClientError,
            match=r"InvalidParameterValue|InvalidNextToken|InvalidInstanceType",
        ):
            ec2.describe_instance_types(**question)
    with network.sim.applied():
        sheet = AwsPriceList(Aws("us-east-1")).of_region("on-demand")
    assert str(sheet.usd["us-east-1"]["m6i.xlarge"].normalize()) == "0.184"
    assert len(sheet.usd["us-east-1"]) > 1000
    assert "made-up" in sheet.source


def test_a_page_is_what_was_asked_for_whatever_was_asked_before(network: Any) -> None:
    ec2 = network.client("ec2")
    asked = (["m6i.large"], ["m6i.xlarge"], ["m6i.large"])
    first, other, again = (
        ec2.describe_instance_types(InstanceTypes=names)["InstanceTypes"] for names in asked
    )
    assert [one["InstanceType"] for one in (*first, *other)] == ["m6i.large", "m6i.xlarge"]
    assert again == first


def test_every_type_is_described_by_members_and_values_that_aws_has(network: Any) -> None:
    # Pages this small are all checked: `shapes_hold` fails this test otherwise.
    pages = network.client("ec2").get_paginator("describe_instance_types").paginate(MaxResults=15)
    assert sum(len(page["InstanceTypes"]) for page in pages) > 500
