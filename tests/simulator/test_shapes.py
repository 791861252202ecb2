"""Calls whose shape is wrong fail their test, and values that no model has crash nothing."""

import pytest

from terradask._aws.session import Aws
from terradask._cleanup.delete import end_instances
from terradask._observe.instances import find_instances
from terradask_host.rules.autoscaling_groups import Group

from ..small_network import network

__all__ = ["network"]

pytestmark = pytest.mark.simulator


def _misspell(params, **_):
    params["body"]["Filters.1.Name"] = "vpc-id"


def test_a_misspelt_parameter_is_found_over_the_wire(network, shape_report):
    client = network.sim.client("ec2")
    client.meta.events.register("before-call.ec2.DescribeVpcs", _misspell)
    client.describe_vpcs()
    client.describe_vpcs()
    assert shape_report.take() == [
        {"call": "request ec2:DescribeVpcs", "at": ".Filters", "problem": "is not a member"}
    ]


def test_hosts_in_states_of_later_are_members_and_are_found_and_ended(network, shape_report):
    name = network.group("later", network.template())
    network.want(name, 2)
    ids = network.reaches(name, 2)
    with (
        network.sim.applied(),
        network.sim.later_values("InService", "Resting"),
    ):
        group = Group.of("workers", network.describe(name))
        assert sorted(group.active_ids) == sorted(ids)
        assert not any(one.in_service for one in group.members)
    with network.sim.applied(), network.sim.later_values("running", "musing"):
        found = find_instances(Aws("us-east-1"), workspace=network.workspace)
        assert {one.id: one.is_on for one in found} == dict.fromkeys(ids, True)
        network.delete_group(name)
        end_instances(Aws("us-east-1"), ids, cluster=None, progress=print)
        assert find_instances(Aws("us-east-1"), workspace=network.workspace) == []
    said = {each["problem"].partition(" is none of ")[0] for each in shape_report.take()}
    assert said == {"'Resting'", "'musing'"}
