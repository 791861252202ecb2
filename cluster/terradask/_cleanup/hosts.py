"""Hosts that are on their way out."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from terradask._cleanup import delete
from terradask._cleanup.resources import Owner

if TYPE_CHECKING:
    from terradask._aws.session import Aws

_THERE = ["pending", "running", "shutting-down", "stopping", "stopped"]


def wait_for_hosts(aws: Aws, *, workspace: str, cluster: str) -> None:
    """Wait until no instance of a cluster is left, ten minutes at most.

    A group is gone before its instances are, and AWS deletes no placement group with an instance in it:
    https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DeletePlacementGroup.html

    Notes
    -----
    Permission needed: ``ec2:DescribeInstances``.
    """
    tags = [{"Name": f"tag:{key}", "Values": [value]} for key, value in Owner(workspace, cluster).tags.items()]
    filters = [*tags, {"Name": "instance-state-name", "Values": _THERE}]
    deadline = time.monotonic() + delete.LIMIT_SECONDS
    with aws.explained():
        while aws.client("ec2").describe_instances(Filters=filters)["Reservations"] and time.monotonic() < deadline:
            time.sleep(delete.PAUSE_SECONDS)
