"""Throttle calls of EC2, Auto Scaling and CloudWatch Logs by token buckets, if switched on.

AWS (documented): Each action of EC2 has its own bucket in each region; launches, terminations,
starts and stops have a second one that counts instances. Sizes and refill rates:
https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html

AWS (documented): Auto Scaling throttles all of its actions together.
https://docs.aws.amazon.com/autoscaling/ec2/APIReference/Welcome.html
It doesn't publish a size: the size of EC2's bucket for changes is assumed.

AWS (documented): CloudWatch Logs has calls a second of an account in a region.
https://repost.aws/knowledge-center/cloudwatch-logs-throttling,
https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_DescribeLogStreams.html
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from terradask_simulator.aws.backend import ACCOUNT
from terradask_simulator.aws.iam.operation import Operation, texts
from terradask_simulator.aws.iam.refusals import Refusal, worded
from terradask_simulator.aws.switchboard import Setting

__all__ = ["AUTOSCALING", "Throttle", "TokenBucket", "bucket_size"]

#: Capacity, and tokens a second.
Size = tuple[float, float]

_QUESTIONS: Size = (100, 20)
_CHANGES: Size = (50, 5)
#: Describe calls with neither a filter nor a page.
_BROAD_QUESTIONS: Size = (50, 10)
_BROAD = frozenset(
    {
        "DescribeInstances",
        "DescribeInstanceStatus",
        "DescribeNetworkInterfaces",
        "DescribeSecurityGroups",
        "DescribeSnapshots",
        "DescribeSpotInstanceRequests",
        "DescribeVolumes",
    }
)
#: AWS's "uncategorized" actions that moto supports and the network or a cluster may call.
_OWN: Mapping[str, Size] = {
    "AssociateIamInstanceProfile": (100, 5),
    "AssociateNatGatewayAddress": (10, 1),
    "CreateLaunchTemplateVersion": (100, 5),
    "CreateNatGateway": (10, 1),
    "CreateNetworkInterface": (100, 5),
    "CreateSnapshot": (100, 5),
    "CreateSnapshots": (100, 5),
    "CreateTags": (100, 10),
    "CreateVolume": (100, 5),
    "CreateVpcEndpoint": (4, 0.3),
    "DeleteNatGateway": (10, 1),
    "DeleteNetworkInterface": (100, 5),
    "DeleteSnapshot": (100, 5),
    "DeleteTags": (100, 10),
    "DeleteVolume": (100, 5),
    "DeleteVpcEndpoints": (4, 0.3),
    "DescribeSpotFleetInstances": (100, 5),
    "DescribeSpotFleetRequestHistory": (100, 5),
    "DescribeSpotFleetRequests": (50, 3),
    "DisassociateIamInstanceProfile": (100, 5),
    "ModifyInstanceMetadataOptions": (100, 5),
    "ModifyLaunchTemplate": (100, 5),
    "ModifyNetworkInterfaceAttribute": (100, 5),
    "ModifyVpcEndpoint": (4, 0.3),
    "RunInstances": (5, 2),
    "StartInstances": (5, 2),
    "TerminateInstances": (100, 5),
}
#: Buckets that count instances.
_INSTANCES: Mapping[str, Size] = {
    "RunInstances": (1000, 2),
    "StartInstances": (1000, 2),
    "StopInstances": (1000, 20),
    "TerminateInstances": (1000, 20),
}
AUTOSCALING: Size = _CHANGES
#: Of the calls that read logs.
_LOGS: Mapping[str, Size] = {"DescribeLogStreams": (25, 25), "FilterLogEvents": (5, 5)}


@dataclass
class TokenBucket:
    """A bucket of tokens that is refilled over time, up to a capacity; full at its start time in
    seconds.
    """

    capacity: float
    per_second: float
    at: float

    def __post_init__(self) -> None:
        """Begin full."""
        self.tokens = self.capacity

    def take(self, count: float, now: float) -> bool:
        """Take tokens if the bucket has enough; return whether it had."""
        self.tokens = min(self.capacity, self.tokens + (now - self.at) * self.per_second)
        self.at = now
        if self.tokens < count:
            return False
        self.tokens -= count
        return True


def bucket_size(action: str, *, broad: bool = False) -> Size:
    """Return the size of the bucket of one of EC2's actions; `broad`: the call has neither a filter
    nor a page.
    """
    if broad and action in _BROAD:
        return _BROAD_QUESTIONS
    if action in _OWN:
        return _OWN[action]
    return _QUESTIONS if action.startswith(("Describe", "List", "Search", "Get")) else _CHANGES


class Throttle(Setting):
    """The buckets of one account, switched off at first."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(factor=0.0)
        self._clock = clock
        self._buckets: dict[tuple[str, ...], TokenBucket] = {}

    def turn(self, **arguments: Any) -> dict[str, Any]:
        """Fill all buckets, and multiply their sizes and rates by a factor."""
        self._buckets.clear()
        return super().turn(**arguments)

    def check(self, operation: Operation) -> Refusal | None:
        """Take a call's tokens; return the error if there are too few. Not thread-safe."""
        if self.factor and operation.service == "ec2":
            return self._check_ec2(operation)
        if (
            self.factor
            and operation.service == "autoscaling"
            and not self._take(("autoscaling", operation.region), AUTOSCALING)
        ):
            # AWS (documented): Auto Scaling throttles with "Rate exceeded".
            # https://repost.aws/knowledge-center/autoscaling-api-calls-throttled
            return worded(operation, "Throttling", "Rate exceeded", "400 Bad Request")
        if self.factor and operation.service == "logs" and operation.name in _LOGS:
            key = ("logs", operation.region, operation.name)
            if not self._take(key, _LOGS[operation.name]):
                return worded(operation, "ThrottlingException", "Rate exceeded", "400 Bad Request")
        return None

    def _check_ec2(self, operation: Operation) -> Refusal | None:
        name, region = operation.name, operation.region
        broad = name in _BROAD and not any(
            key.startswith(("Filter", "MaxResults", "NextToken")) for key in operation.parameters
        )
        if not self._take((region, name, "broad" if broad else ""), bucket_size(name, broad=broad)):
            return _exceeded(operation, "request")
        if name in _INSTANCES and not self._take(
            (region, name, "instances"), _INSTANCES[name], _instances(operation)
        ):
            return _exceeded(operation, "resource")
        return None

    def _take(self, key: tuple[str, ...], size: Size, count: float = 1) -> bool:
        now = self._clock()
        bucket = self._buckets.get(key)
        if bucket is None:
            capacity, per_second = size
            # A bucket that never holds a token would refuse every call.
            bucket = TokenBucket(max(1.0, capacity * self.factor), per_second * self.factor, now)
            self._buckets[key] = bucket
        return bucket.take(count, now)


def _instances(operation: Operation) -> float:
    if operation.name == "RunInstances":
        return float(operation.parameters.get("MaxCount") or 1)
    return float(len(texts(operation.parameters, "InstanceId")))


def _exceeded(operation: Operation, rate: str) -> Refusal:
    # Source of the message: https://github.com/CloudSnorkel/cdk-github-runners/issues/946
    why = (
        f"Account {ACCOUNT} has been throttled on ec2:{operation.name} because it exceeded its "
        f"{rate} rate limit."
    )
    return worded(
        operation,
        "RequestLimitExceeded",
        f"Request limit exceeded. {why}",
        "503 Service Unavailable",
    )
