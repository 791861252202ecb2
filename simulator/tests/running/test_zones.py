"""Zones and spot prices: by which of them groups launch, and are balanced."""

from __future__ import annotations

import datetime
import json
from collections import Counter
from typing import Any

import pytest
from tests.waiting import eventually

from .own_groups import A, B, failed, of, reaches

pytestmark = pytest.mark.simulator


def test_spot_prices_change_and_strategies_go_by_them(network, make):
    def history(**asked: Any) -> list[tuple[str, str]]:
        found = network.ec2.describe_spot_price_history(
            InstanceTypes=["m7i.large"], ProductDescriptions=["Linux/UNIX"], **asked
        )
        return [
            (one["AvailabilityZone"], one["SpotPrice"])
            for one in found["SpotPriceHistory"]
            if one["AvailabilityZone"] in (A, B)
        ]

    now = datetime.datetime.now(datetime.UTC)
    before = dict(history(StartTime=now))
    with network.sim.set_spot_price("m7i.large", "0.5", A):
        assert sorted(history()) == sorted([*before.items(), (A, "0.5")])
        assert dict(history(StartTime=datetime.datetime.now(datetime.UTC))) == {**before, A: "0.5"}
        cheapest = make("m7i.large", "m6i.large", market="spot", both=True)
        pools = {
            (one["Placement"]["AvailabilityZone"], one["InstanceType"])
            for one in reaches(network, cheapest, 4)
        }
        assert pools == {(A, "m6i.large"), (B, "m7i.large")}
        listed = make(
            "m7i.large",
            "m6i.large",
            market="spot",
            strategies={"SpotAllocationStrategy": "capacity-optimized-prioritized"},
        )
        assert of(reaches(network, listed, 2), "InstanceType") == {"m7i.large": 2}
        lowest = {"SpotAllocationStrategy": "lowest-price", "SpotInstancePools": 2}
        spreads = make("m7i.large", "m6i.large", "c7i.large", market="spot", strategies=lowest)
        assert of(reaches(network, spreads, 4), "InstanceType") == {"c7i.large": 2, "m6i.large": 2}
    assert history() == list(before.items())
    on_demand = make(
        "r7i.large", "c7i.large", strategies={"OnDemandAllocationStrategy": "lowest-price"}
    )
    assert of(reaches(network, on_demand, 1), "InstanceType") == {"c7i.large": 1}


def test_zones_are_balanced_in_scaling_and_share_what_one_lacks(network, make):
    group = make(both=True)
    network.autoscaling.suspend_processes(
        AutoScalingGroupName=group, ScalingProcesses=["AZRebalance"]
    )
    assert of(reaches(network, group, 5), "zone") == {A: 3, B: 2}
    assert of(reaches(network, group, 2), "zone") == {A: 1, B: 1}
    with network.sim.no_capacity(zone=A):
        assert of(reaches(network, group, 5), "zone") == {A: 1, B: 4}
        assert {
            json.loads(one["Details"])["Availability Zone"] for one in failed(network, group)
        } == {A}
    assert of(reaches(network, group, 3), "zone") == {A: 1, B: 2}


def test_zones_are_rebalanced_unless_that_is_suspended(network, make):
    left, kept = make(both=True), make(both=True)
    network.autoscaling.suspend_processes(
        AutoScalingGroupName=kept, ScalingProcesses=["AZRebalance"]
    )
    with network.sim.no_capacity(zone=B):
        for group in (left, kept):
            assert of(reaches(network, group, 3), "zone") == {A: 3}

    def zones(group: str) -> Counter[str]:
        return of(network.instances(network.members(group)), "zone")

    eventually(lambda: zones(left) == {A: 2, B: 1})
    assert zones(kept) == {A: 3}
    causes = [one["Cause"] for one in network.activities(left)]
    assert any(
        "to balance instances in zones us-east-1b with other zones" in cause for cause in causes
    )
    assert failed(network, kept)


def test_a_group_that_is_only_to_be_balanced_does_without(network, make):
    group = make(
        both=True, AvailabilityZoneDistribution={"CapacityDistributionStrategy": "balanced-only"}
    )
    with network.sim.no_capacity(zone=B):
        network.want(group, 4)
        eventually(lambda: failed(network, group))
        assert of(network.instances(network.reaches(group, 2)), "zone") == {A: 2}
    network.reaches(group, 4)
