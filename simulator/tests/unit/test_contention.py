"""Calls that change groups meet another one's update as often as was asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from terradask_simulator.aws.fidelity.not_yet import CONTENTION, check_contention
from terradask_simulator.aws.iam.operation import Operation


def call(name: str, service: str = "autoscaling") -> Operation:
    return Operation(service, name, "query", {}, "us-east-1", "key")


@pytest.fixture(autouse=True)
def _off() -> Iterator[None]:
    yield
    CONTENTION.turn(share=0.0)


def test_changes_are_refused_with_awss_code_and_status() -> None:
    assert check_contention(call("SetDesiredCapacity")) is None
    CONTENTION.turn(share=1.0)
    refused = check_contention(call("SetDesiredCapacity"))
    assert refused is not None
    assert (refused.code, refused.status) == ("ResourceContention", "500 Internal Server Error")
    for other in (call("DescribeAutoScalingGroups"), call("RunInstances", "ec2")):
        assert check_contention(other) is None


def test_a_seed_refuses_the_same_share_again() -> None:
    drawn = []
    for _ in range(2):
        CONTENTION.turn(share=0.3, seed=5)
        drawn.append([check_contention(call("CreateOrUpdateTags")) is None for _ in range(100)])
    assert drawn[0] == drawn[1]
    assert 55 < sum(drawn[0]) < 85
