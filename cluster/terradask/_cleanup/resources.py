"""AWS resources under Terraform's type names: their owners, and their presence in a state. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from terradask_modules.kinds import KINDS
from terradask_modules.names import TAG_CLUSTER, TAG_WORKSPACE
from terradask_modules.where import Where

INGRESS_RULE = "aws_vpc_security_group_ingress_rule"
EGRESS_RULE = "aws_vpc_security_group_egress_rule"
RULES = (INGRESS_RULE, EGRESS_RULE)
AUTOSCALING_GROUP, SECRET = "aws_autoscaling_group", "aws_secretsmanager_secret"
#: Address of a cluster's secret in its stack.
SECRET_ADDRESS = f"{SECRET}.keys"
NETWORK_INTERFACE, VOLUME = "aws_network_interface", "aws_ebs_volume"


@dataclass(frozen=True)
class Resource:
    """One resource."""

    type: str
    #: Its id in Terraform's state and ``terraform import``: AWS's id, or the name.
    id: str
    tags: Mapping[str, str] = field(default_factory=dict)
    description: Mapping[str, Any] = field(default_factory=dict)

    def is_of(self, where: Where) -> bool:
        """Return whether its tags make it the cluster's or the network's."""
        tags = self.tags
        return (tags.get(TAG_WORKSPACE), tags.get(TAG_CLUSTER)) == (where.workspace, where.cluster)


def cluster_resource_types() -> frozenset[str]:
    """Return the types of clusters' own resources, beside groups and secret."""
    return frozenset(name for name, kind in KINDS.items() if kind.clusters is not None)


def of_type(resources: Iterable[Resource], *types: str) -> Iterator[Resource]:
    """Yield the resources of some types."""
    return (resource for resource in resources if resource.type in types)


def clusters_of(found: Iterable[Resource], where: Where) -> set[str]:
    """Return the clusters of a workspace that own any of these resources, by tags."""
    tags = [resource.tags for resource in found]
    return {
        each[TAG_CLUSTER]
        for each in tags
        if each.get(TAG_WORKSPACE) == where.workspace and TAG_CLUSTER in each
    }


def unknown(found: Iterable[Resource], ids: Mapping[str, str]) -> list[Resource]:
    """Return the resources that a state lacks."""
    # With types, since a role and its instance profile share a name.
    known = {(address.partition(".")[0], identity) for address, identity in ids.items()}
    return [resource for resource in found if (resource.type, resource.id) not in known]


def outermost(resources: Sequence[Resource]) -> list[Resource]:
    """Return resources without parts of others, such as a group's rules or a role's policies."""
    whole = {(resource.type, resource.id) for resource in resources}
    return [resource for resource in resources if _parent(resource) not in whole]


def _parent(resource: Resource) -> tuple[str, str] | None:
    part_of = KINDS[resource.type].part_of
    return None if part_of is None else (part_of[0], resource.description[part_of[1]])
