"""Pools, zones, classes of quotas and times of launches, without a daemon."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from terradask_simulator.aws.fidelity.group_zones import imbalance, scale_in_candidates, spread
from terradask_simulator.aws.fidelity.launch_limits import Shortage, vcpu_quota
from terradask_simulator.aws.fidelity.slow_instances import draw_delays
from terradask_simulator.aws.switchboard import Setting


@pytest.mark.parametrize(
    ("instance_type", "on_demand", "spot"),
    [
        ("m7i.large", "L-1216C47A", "L-34B43A08"),
        ("im4gn.large", "L-1216C47A", "L-34B43A08"),
        ("g4dn.xlarge", "L-DB2E81BA", "L-3819A6DF"),
        ("vt1.3xlarge", "L-DB2E81BA", "L-3819A6DF"),
        ("p4d.24xlarge", "L-417A185B", "L-7212CCBC"),
        ("p5.48xlarge", "L-417A185B", "L-C4BD4855"),
        ("u-6tb1.metal", "L-43DA4232", ""),
        ("mac2.metal", "", ""),
    ],
)
def test_an_instance_counts_for_the_quota_of_its_class(
    instance_type: str, on_demand: str, spot: str
) -> None:
    assert (vcpu_quota(instance_type, "on-demand"), vcpu_quota(instance_type, "spot")) == (
        on_demand,
        spot,
    )


def test_a_shortage_covers_the_pools_that_it_names() -> None:
    pool = ("m7i.large", "us-east-1a", "spot")
    assert Shortage().covers(*pool)
    assert Shortage("m7i.*", "us-east-1a", "spot").covers(*pool)
    assert not Shortage("m7i.xlarge").covers(*pool)
    assert not Shortage(zone="us-east-1b").covers(*pool)
    assert not Shortage(market="on-demand").covers(*pool)


def test_delays_lie_between_the_published_figures_and_repeat_with_their_seed() -> None:
    drawn = [draw_delays(Setting(factor=1.0, seed=3)) for _ in range(2)]
    assert drawn[0] == drawn[1]
    delays = Setting(factor=2.0, seed=4)
    times = [draw_delays(delays) for _ in range(200)]
    assert len(set(times)) == 200
    assert all(9.8 <= launch <= 35.6 and 6.2 <= boot <= 45.6 for launch, boot in times)


def group_with(**in_zone: int) -> Any:
    """Return a group with a subnet in each zone, and so many instances there; the first one of each
    zone is protected.
    """
    states = [
        SimpleNamespace(
            instance=SimpleNamespace(
                id=f"{zone}{number}",
                subnet_id=f"subnet-{zone}",
                placement=SimpleNamespace(zone=zone),
            ),
            lifecycle_state="InService",
            protected_from_scale_in=number == 0,
        )
        for zone, count in in_zone.items()
        for number in range(count)
    ]
    subnets = [SimpleNamespace(id=f"subnet-{zone}", availability_zone=zone) for zone in in_zone]
    return SimpleNamespace(
        instance_states=states,
        ec2_backend=SimpleNamespace(describe_subnets=lambda: subnets),
        availability_zones=list(in_zone),
        vpc_zone_identifier=",".join(subnet.id for subnet in subnets),
        termination_policies=["Default"],
    )


@pytest.mark.parametrize(
    ("there", "count", "after"),
    [
        ((0, 0, 0), 7, (3, 2, 2)),
        ((5, 1, 0), 3, (5, 2, 2)),
        ((5, 1, 0), 30, (12, 12, 12)),
        ((1, 1, 1), 1, (2, 1, 1)),
    ],
)
def test_launches_go_where_there_are_fewest(
    there: tuple[int, ...], count: int, after: tuple[int, ...]
) -> None:
    in_zone = dict(zip("abc", there, strict=True))
    shares = Counter(
        {place.zone: share for place, share in spread(group_with(**in_zone), count).items()}
    )
    assert tuple(in_zone[zone] + shares[zone] for zone in "abc") == after


def test_ends_come_where_there_are_most_oldest_first_and_spare_the_protected() -> None:
    group = group_with(a=4, b=2)
    assert [state.instance.id for state in scale_in_candidates(group, 3)] == ["a1", "a2", "a3"]
    assert [state.instance.id for state in scale_in_candidates(group, 9)] == [
        "a1",
        "a2",
        "a3",
        "b1",
    ]
    group.termination_policies = ["NewestInstance"]
    assert [state.instance.id for state in scale_in_candidates(group, 2)] == ["a3", "a2"]


def test_zones_that_differ_by_one_are_balanced() -> None:
    assert imbalance(group_with(a=2, b=1)) is None
    assert imbalance(group_with(a=1, b=0)) is None
    found = imbalance(group_with(a=3, b=1, c=0))
    assert found is not None
    victim, places = found
    assert (victim.instance.id, [place.zone for place in places]) == ("a1", ["c", "b"])
