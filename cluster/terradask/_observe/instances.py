"""The instances of workspaces as EC2 has them, found by tags, even without their groups."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from terradask._aws.listing import listed, listed_instances
from terradask._aws.session import Aws
from terradask._aws.tags import tag_filters, tags_of
from terradask._catalog.prices.running import RunningHost, Volumes, gp3_volume
from terradask_modules.names import TAG_CLUSTER, TAG_ROLE, TAG_WORKSPACE

#: Auto Scaling's tag on the instances that it launches:
#: https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-tagging.html
_TAG_OF_GROUP = "aws:autoscaling:groupName"

#: States of an instance that isn't terminated or terminating; a stopped one costs its volumes.
_LEFT = ["pending", "running", "stopping", "stopped"]
_ON = frozenset({"pending", "running"})


@dataclass(frozen=True)
class Instance:
    """One instance."""

    #: Instance id.
    id: str
    #: `workspace`, `cluster`, `role`: what it belongs to and what it does, from its tags.
    workspace: str
    cluster: str | None
    role: str | None
    #: The group that launched it, from AWS's own tag; None without the tag: it was detached.
    autoscaling_group: str | None
    #: Launch time.
    launched_at: datetime.datetime
    #: What its price depends on.
    host: RunningHost
    #: Whether it is booting or running.
    is_on: bool


def find_instances(
    aws: Aws,
    *,
    workspace: str | None = None,
    cluster: str | None = None,
    with_volumes: bool = True,
) -> list[Instance]:
    """Return the instances that aren't terminated or terminating.

    Permissions needed: ``ec2:DescribeInstances``; with volumes ``ec2:DescribeVolumes``.
    """
    ec2 = aws.client("ec2")
    tags = {TAG_WORKSPACE: workspace} | ({} if cluster is None else {TAG_CLUSTER: cluster})
    ours = tag_filters(tags)
    left = {"Name": "instance-state-name", "Values": _LEFT}
    found = list(listed_instances(ec2, Filters=[*ours, left]))
    volumes = _volumes(ec2, ours) if with_volumes and found else {}
    return [_read(instance, volumes if with_volumes else None) for instance in found]


def _volumes(client: Any, filters: list[dict[str, Any]]) -> dict[str, Volumes]:
    """Return the gp3 volumes of each instance."""
    found: dict[str, Volumes] = {}
    in_use = {"Name": "status", "Values": ["in-use"]}
    for volume in listed(client, "describe_volumes", "Volumes", Filters=[*filters, in_use]):
        for attachment in volume["Attachments"]:
            instance = attachment["InstanceId"]
            found[instance] = found.get(instance, Volumes()) + gp3_volume(volume["Size"], volume)
    return found


def _read(instance: Mapping[str, Any], volumes: Mapping[str, Volumes] | None) -> Instance:
    tags = tags_of(instance.get("Tags"))
    host = RunningHost(
        instance_type=instance["InstanceType"],
        market="spot" if instance.get("InstanceLifecycle") == "spot" else "on-demand",
        zone=instance.get("Placement", {}).get("AvailabilityZone"),
        has_public_address=bool(instance.get("PublicIpAddress")),
        volumes=None if volumes is None else volumes.get(instance["InstanceId"], Volumes()),
    )
    return Instance(
        instance["InstanceId"],
        tags.get(TAG_WORKSPACE, ""),
        tags.get(TAG_CLUSTER),
        tags.get(TAG_ROLE),
        tags.get(_TAG_OF_GROUP),
        instance["LaunchTime"],
        host,
        instance["State"]["Name"] in _ON,
    )
