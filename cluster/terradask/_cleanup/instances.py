"""Terminate instances, and wait for those that end with their group."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from botocore.exceptions import ClientError

from terradask._aws.listing import listed_instances
from terradask._aws.session import Aws
from terradask._aws.tags import tag_filters
from terradask._cleanup import delete
from terradask._common.polling import wait_until
from terradask._common.progress import Message, Progress
from terradask.errors import ClusterError
from terradask_modules.where import Where

#: Longest wait for EC2 to show instances as ending, in seconds: it may not show one for minutes.
LIMIT_SECONDS = 300.0
PAUSE_SECONDS = 2.0
_BATCH = 100

_ENDED = frozenset({"shutting-down", "terminated"})
_THERE = ["pending", "running", "shutting-down", "stopping", "stopped"]


def end_instances(
    aws: Aws, ids: Collection[str], *, cluster: str | None, progress: Progress
) -> None:
    """Terminate instances, and verify that they end: one that EC2 doesn't list right now may still
    exist.

    Raises `ClusterError`.

    Permissions needed: ``ec2:TerminateInstances``, ``ec2:DescribeInstances``.
    """
    ec2, left = aws.client("ec2"), sorted(set(ids))

    def are_ending() -> bool:
        for start in range(0, len(left), _BATCH):
            _terminate(ec2, left[start : start + _BATCH])
        ending = _ending(ec2, left)
        left[:] = [identity for identity in left if identity not in ending]
        return not left

    def report() -> None:
        progress(Message(f"waiting until EC2 ends {', '.join(left)}"))

    if left and not wait_until(
        are_ending, limit_seconds=LIMIT_SECONDS, pause_seconds=PAUSE_SECONDS, on_wait=report
    ):
        raise ClusterError(
            f"EC2 doesn't end {', '.join(left)}",
            cluster=cluster,
            advice="check them in the EC2 console, then: terradask sweep",
        )


def wait_for_hosts(aws: Aws, where: Where) -> None:
    """Wait until no instance of a cluster is left, for at most ten minutes.

    A group is gone before its instances, and AWS doesn't delete what holds one.

    Permission needed: ``ec2:DescribeInstances``.
    """
    filters = [*tag_filters(where.tags), {"Name": "instance-state-name", "Values": _THERE}]
    wait_until(
        lambda: not aws.client("ec2").describe_instances(Filters=filters)["Reservations"],
        limit_seconds=delete.LIMIT_SECONDS,
        pause_seconds=delete.PAUSE_SECONDS,
    )


def _terminate(client: Any, ids: Sequence[str]) -> None:
    try:
        client.terminate_instances(InstanceIds=list(ids))
    except ClientError as error:
        if not error.response["Error"]["Code"].startswith("InvalidInstanceID"):
            raise
        # EC2 refuses the whole call if it doesn't know one of them.
        if len(ids) > 1:
            for identity in ids:
                _terminate(client, [identity])


def _ending(client: Any, ids: Sequence[str]) -> set[str]:
    # By a filter: an unknown id as an argument would be an error.
    found = listed_instances(client, Filters=[{"Name": "instance-id", "Values": list(ids)}])
    return {instance["InstanceId"] for instance in found if instance["State"]["Name"] in _ENDED}
