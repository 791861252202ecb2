"""Clusters' Auto Scaling groups, what they launch hosts by, and what AWS makes for an instance:
volumes and network interfaces. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from terradask_modules.kinds.cluster_names import ClusterNames, exactly
from terradask_modules.kinds.kind import FREE, HOSTS_NEED_IT, Deletion, ResourceKind, in_ec2
from terradask_modules.names import ROLES, is_group_key, is_worker_group, resource_name
from terradask_modules.where import Where

_ARCHITECTURES = {"x86_64": "", "arm64": "-arm64"}
_TEMPLATE = re.compile(rf"({'|'.join(ROLES)})(?:-([a-z0-9]+))?-({'|'.join(_ARCHITECTURES)})")


def _of_template(names: ClusterNames, address: str) -> Mapping[str, str] | None:
    found = _TEMPLATE.fullmatch(address)
    if found is None:
        return None
    role, group, architecture = found.groups()
    if group is not None and (role != "worker" or not is_worker_group(group)):
        return None
    host = role if group is None else f"{role}-{group}"
    name = names.where.host_name(host) + _ARCHITECTURES[architecture]
    return {"id": "lt-[0-9a-f]+", "name": re.escape(name)}


LAUNCH_TEMPLATE = in_ec2(
    "aws_launch_template",
    after=(
        "aws_security_group",
        "aws_iam_instance_profile",
    ),
    prefix="lt",
    adopt="named",
    orphan="launch-template",
    within="nothing",
    change=("CreateLaunchTemplateVersion", "ModifyLaunchTemplate"),
    given_with=None,
    price=FREE,
    born="CreateTime",
    clusters="templates",
    shape=_of_template,
)


#: The name of a placement group in its stack.
ADDRESS = "hosts"


def placement_group_name(where: Where) -> str:
    """Return the name of a cluster's placement group. The dot keeps it apart from those of
    workspaces whose names begin alike.
    """
    return resource_name(f"{where.workspace}.{where.cluster}")


def _of_placement(names: ClusterNames, address: str) -> Mapping[str, str] | None:
    name = placement_group_name(names.where)
    return exactly(id=name, name=name) if address == ADDRESS else None


PLACEMENT_GROUP = in_ec2(
    "aws_placement_group",
    prefix="pg",
    id="GroupName",
    is_optional=True,
    gone=("InvalidPlacementGroup.Unknown",),
    in_use=("InvalidPlacementGroup.InUse",),
    orphan="placement-group",
    within="nothing",
    # Groups of instances launch there. Its tags never change.
    change=("RunInstances",),
    price=FREE,
    clusters="each",
    shape=_of_placement,
    loss="hosts are no longer placed close together; AWS refuses while any runs in it",
    loss_to_hosts=HOSTS_NEED_IT,
    # AWS (documented, pg-delete): EC2 deletes a placement group only when its instances have ended.
    # https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DeletePlacementGroup.html
    # AWS (documented, placement-price): EC2 doesn't charge for placement groups.
    # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-groups.html
    holds_hosts=True,
)


VOLUME = in_ec2(
    "aws_ebs_volume",
    "volume",
    prefix="vol",
    in_use=("VolumeInUse",),
    is_optional=True,
    orphan="volume",
    born="CreateTime",
    is_of_host=True,
)
NETWORK_INTERFACE = in_ec2(
    "aws_network_interface",
    after=(
        "aws_subnet",
        "aws_security_group",
    ),
    prefix="eni",
    is_optional=True,
    orphan="network-interface",
    is_of_host=True,
)


def _of_group(names: ClusterNames, key: str) -> Mapping[str, str] | None:
    if not is_group_key(key):
        return None
    name = names.where.group_name(key)
    return exactly(id=name, name=name)


AUTOSCALING_GROUP = ResourceKind(
    "aws_autoscaling_group",
    after=(
        "aws_launch_template",
        "aws_placement_group",
        "aws_secretsmanager_secret",
        "aws_network_interface",
        "aws_ebs_volume",
    ),
    service="autoscaling",
    # With its instances.
    delete=Deletion(
        "delete_auto_scaling_group",
        "AutoScalingGroupName",
        more={"ForceDelete": True},
        # AWS (documented): instances or activities are left.
        # https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_DeleteAutoScalingGroup.html
        in_use=("ResourceInUse", "ScalingActivityInProgress"),
    ),
    orphan="group",
    born="CreatedTime",
    shape=_of_group,
    loss="every host of the group ends, and the results on it are lost",
)
