"""The placement group that a cluster can have: its hosts close to each other. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from terradask_modules.kinds.cluster_names import ClusterNames, exactly
from terradask_modules.kinds.kind import FREE, HOSTS_NEED_IT, in_ec2
from terradask_modules.names import resource_name
from terradask_modules.where import Where

#: Its name in the stack.
ADDRESS = "hosts"


def placement_group_name(where: Where) -> str:
    """Return the name of a cluster's placement group. The dot keeps it apart from those of
    workspaces whose names begin alike.
    """
    return resource_name(f"{where.workspace}.{where.cluster}")


def _shape(names: ClusterNames, address: str) -> Mapping[str, str] | None:
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
    shape=_shape,
    loss="hosts are no longer placed close together; AWS refuses while any runs in it",
    loss_to_hosts=HOSTS_NEED_IT,
    # AWS (documented, pg-delete): EC2 deletes a placement group only when its instances have ended.
    # https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DeletePlacementGroup.html
    # AWS (documented, placement-price): EC2 doesn't charge for placement groups.
    # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-groups.html
    holds_hosts=True,
)
