"""Calls whose shape is wrong fail the test that makes them."""

import pytest

pytestmark = pytest.mark.simulator


def _misspell(params, **_):
    params["body"]["Filters.1.Name"] = "vpc-id"


def test_a_misspelt_parameter_is_found_over_the_wire(bare_sim, shape_report):
    client = bare_sim.client("ec2")
    client.meta.events.register("before-call.ec2.DescribeVpcs", _misspell)
    client.describe_vpcs()
    client.describe_vpcs()
    assert shape_report.take() == [
        {"call": "request ec2:DescribeVpcs", "at": ".Filters", "problem": "is no member"}
    ]
