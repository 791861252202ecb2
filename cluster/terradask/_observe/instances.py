"""Find a workspace's instances in EC2 by tags, even without their groups."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from terradask._aws.listing import listed, listed_instances
from terradask._aws.session import Aws
from terradask._aws.tags import tag_filters, tags_of
from terradask._catalog.prices.prices import RunningHost, Volumes, gp3_volume
from terradask_modules.names import TAG_CLUSTER, TAG_ROLE, TAG_WORKSPACE

#: AWS (documented): Auto Scaling tags the instances that it launches with
#: aws:autoscaling:groupName.
#: https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-tagging.html
_GROUP_TAG = "aws:autoscaling:groupName"

#: A stopped instance still costs its volumes. One in a state that EC2 adds later exists, and is on.
_ENDED = frozenset({"shutting-down", "terminated"})
_OFF = frozenset({"stopping", "stopped"})


@dataclass(frozen=True)
class Instance:
    """One EC2 instance."""

    #: Instance id.
    id: str
    #: `workspace`, `cluster` and `role` from its tags.
    workspace: str
    cluster: str | None
    role: str | None
    #: The group that launched it, from AWS's own tag; None for a detached instance.
    autoscaling_group: str | None
    #: Launch time.
    launched_at: datetime.datetime
    #: The facts that determine its price.
    host: RunningHost
    #: Whether it is booting or running.
    is_on: bool


def find_instances(
    aws: Aws, *, workspace: str | None = None, cluster: str | None = None, with_volumes: bool = True
) -> list[Instance]:
    """Return the instances that aren't terminated or terminating.

    Permissions needed: ``ec2:DescribeInstances``; with volumes ``ec2:DescribeVolumes``.
    """
    ec2 = aws.client("ec2")
    tags = {TAG_WORKSPACE: workspace} | ({} if cluster is None else {TAG_CLUSTER: cluster})
    by_tags = tag_filters(tags)
    found = [
        instance
        for instance in listed_instances(ec2, Filters=by_tags)
        if instance["State"]["Name"] not in _ENDED
    ]
    volumes = _volumes(ec2, by_tags) if with_volumes and found else {}
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
        tags.get(_GROUP_TAG),
        instance["LaunchTime"],
        host,
        instance["State"]["Name"] not in _OFF,
    )
