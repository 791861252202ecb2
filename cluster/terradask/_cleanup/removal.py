"""Remove strays one kind at a time. What is gone already is no error."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from terradask._common.progress import Message, Progress
from terradask.errors import ClusterError

if TYPE_CHECKING:
    from terradask._aws.session import Aws

#: Longest wait for machines to be seen ending, in seconds: EC2 may not show one for a minute.
_LIMIT_SECONDS = 120.0
_POLL_SECONDS = 2.0
_BATCH = 100

_ENDED = frozenset({"shutting-down", "terminated"})


def end_machines(aws: Aws, ids: Collection[str], *, cluster: str | None, progress: Progress) -> None:
    """End instances, and see that they do: that EC2 doesn't know one just now doesn't mean that it is gone.

    Raises
    ------
    ClusterError
        If one isn't seen ending in two minutes.

    Notes
    -----
    Permissions needed: ``ec2:TerminateInstances``, ``ec2:DescribeInstances``.
    """
    ec2, left = aws.client("ec2"), set(ids)
    deadline = time.monotonic() + _LIMIT_SECONDS
    while left:
        ordered = sorted(left)
        with aws.explained():
            for start in range(0, len(ordered), _BATCH):
                _terminate(ec2, ordered[start : start + _BATCH])
            left -= _ending(ec2, ordered)
        if not left:
            return
        if time.monotonic() > deadline:
            raise ClusterError(
                f"EC2 doesn't end {', '.join(sorted(left))}",
                cluster=cluster,
                advice="look at them in the EC2 console, then: terradask sweep",
            )
        progress(Message(f"waiting until EC2 ends {', '.join(sorted(left))}"))
        time.sleep(_POLL_SECONDS)


def delete_group(aws: Aws, name: str) -> None:
    """Delete an Auto Scaling group with its instances.

    Notes
    -----
    Permission needed: ``autoscaling:DeleteAutoScalingGroup``.
    """
    _unless_gone(aws, lambda: aws.client("autoscaling").delete_auto_scaling_group(AutoScalingGroupName=name, ForceDelete=True))


def delete_secret(aws: Aws, name: str) -> None:
    """Delete a secret at once, also one that is scheduled for deletion: its name can be used again.

    Notes
    -----
    Permission needed: ``secretsmanager:DeleteSecret``.
    """
    _unless_gone(aws, lambda: aws.client("secretsmanager").delete_secret(SecretId=name, ForceDeleteWithoutRecovery=True))


def delete_volume(aws: Aws, identity: str) -> None:
    """Delete a volume; AWS refuses one that is in use.

    Notes
    -----
    Permission needed: ``ec2:DeleteVolume``.
    """
    _unless_gone(aws, lambda: aws.client("ec2").delete_volume(VolumeId=identity))


def delete_interface(aws: Aws, identity: str) -> None:
    """Delete a network interface; AWS refuses one that is in use.

    Notes
    -----
    Permission needed: ``ec2:DeleteNetworkInterface``.
    """
    _unless_gone(aws, lambda: aws.client("ec2").delete_network_interface(NetworkInterfaceId=identity))


def _terminate(client: Any, ids: Sequence[str]) -> None:
    from botocore.exceptions import ClientError

    try:
        client.terminate_instances(InstanceIds=list(ids))
    except ClientError as error:
        if not error.response["Error"]["Code"].startswith("InvalidInstanceID"):
            raise
        # One that EC2 doesn't know makes it refuse all of them.
        if len(ids) > 1:
            for identity in ids:
                _terminate(client, [identity])


def _ending(client: Any, ids: Sequence[str]) -> set[str]:
    # By a filter: asked for by id, one that isn't known would be an error.
    pages = client.get_paginator("describe_instances").paginate(Filters=[{"Name": "instance-id", "Values": list(ids)}])
    found = [instance for page in pages for reservation in page["Reservations"] for instance in reservation["Instances"]]
    return {instance["InstanceId"] for instance in found if instance["State"]["Name"] in _ENDED}


def _unless_gone(aws: Aws, act: Callable[[], object]) -> None:
    from botocore.exceptions import ClientError

    try:
        with aws.explained():
            act()
    except ClientError as error:
        code, text = error.response["Error"]["Code"], error.response["Error"].get("Message", "")
        # Auto Scaling says it in words alone.
        if (
            code != "ResourceNotFoundException"
            and not code.endswith(".NotFound")
            and not (code == "ValidationError" and "not found" in text)
        ):
            raise
