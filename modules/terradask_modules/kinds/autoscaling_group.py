"""Clusters' Auto Scaling groups. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from terradask_modules.kinds.cluster_names import ClusterNames, exactly
from terradask_modules.kinds.kind import Deletion, ResourceKind
from terradask_modules.names import is_group_key


def _shape(names: ClusterNames, key: str) -> Mapping[str, str] | None:
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
    shape=_shape,
    loss="every host of the group ends, and the results on it are lost",
)
