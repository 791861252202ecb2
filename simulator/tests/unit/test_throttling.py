"""Token buckets of the embedded AWS hold what AWS documents, and fill as time passes."""

from __future__ import annotations

import pytest

from terradask_simulator.aws.fidelity.throttling import Throttle, TokenBucket, bucket_size
from terradask_simulator.aws.iam.operation import Operation


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def call(
    name: str, service: str = "ec2", region: str = "us-east-1", **parameters: object
) -> Operation:
    return Operation(
        service, name, "ec2" if service == "ec2" else "query", parameters, region, "key"
    )


@pytest.mark.parametrize(
    ("action", "broad", "size"),
    [
        ("RunInstances", False, (5, 2)),
        ("TerminateInstances", False, (100, 5)),
        ("DescribeInstances", False, (100, 20)),
        ("DescribeInstances", True, (50, 10)),
        ("DescribeVpcs", True, (100, 20)),
        ("CreateFleet", False, (50, 5)),
        ("CreateTags", False, (100, 10)),
    ],
)
def test_sizes_are_those_of_the_documentation(
    action: str, broad: bool, size: tuple[float, float]
) -> None:
    assert bucket_size(action, broad=broad) == size


def test_a_bucket_fills_up_to_its_capacity() -> None:
    bucket = TokenBucket(4, 2, 0.0)
    assert [bucket.take(1, 0.0) for _ in range(5)] == [True] * 4 + [False]
    assert [bucket.take(1, 0.5) for _ in range(2)] == [True, False]
    assert bucket.take(4, 100.0)
    assert not bucket.take(1, 100.0)


def test_a_thousand_instances_at_once_and_then_two_a_second() -> None:
    clock = Clock()
    throttle = Throttle(clock)
    assert throttle.check(call("RunInstances", MaxCount="5000")) is None
    throttle.turn(factor=1.0)
    assert throttle.check(call("RunInstances", MaxCount="600")) is None
    refused = throttle.check(call("RunInstances", MaxCount="500"))
    assert refused is not None
    assert (refused.code, refused.status) == ("RequestLimitExceeded", "503 Service Unavailable")
    clock.now += 50
    assert throttle.check(call("RunInstances", MaxCount="500")) is None
    assert throttle.check(call("RunInstances", MaxCount="500", region="eu-west-1")) is None


def test_auto_scaling_shares_one_bucket_and_other_services_have_none() -> None:
    throttle = Throttle(Clock())
    throttle.turn(factor=1.0)
    calls = [
        call(name, "autoscaling") for name in ("SetDesiredCapacity", "DescribeAutoScalingGroups")
    ] * 25
    assert [throttle.check(one) for one in calls] == [None] * 50
    refused = throttle.check(calls[0])
    assert refused is not None
    assert (refused.code, refused.message) == ("Throttling", "Rate exceeded")
    assert all(throttle.check(call("GetCallerIdentity", "sts")) is None for _ in range(200))


def test_five_reads_of_log_events_a_second_and_25_lists_of_streams() -> None:
    clock = Clock()
    throttle = Throttle(clock)
    throttle.turn(factor=1.0)

    def refusals(name: str, times: int) -> list[str]:
        answers = [throttle.check(call(name, "logs")) for _ in range(times)]
        return [answer.code for answer in answers if answer is not None]

    assert refusals("FilterLogEvents", 6) == ["ThrottlingException"]
    assert refusals("DescribeLogStreams", 26) == ["ThrottlingException"]
    assert refusals("PutLogEvents", 100) == []
    clock.now += 1
    assert refusals("FilterLogEvents", 5) == []
