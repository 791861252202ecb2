"""Resources as AWS has them and as Terraform names them: whose each is, and which a state doesn't know. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from terradask_modules.names import TAG_CLUSTER, TAG_WORKSPACE

INGRESS_RULE, EGRESS_RULE = "aws_vpc_security_group_ingress_rule", "aws_vpc_security_group_egress_rule"
RULES = (INGRESS_RULE, EGRESS_RULE)
AUTOSCALING_GROUP, SECRET = "aws_autoscaling_group", "aws_secretsmanager_secret"
NETWORK_INTERFACE, VOLUME = "aws_network_interface", "aws_ebs_volume"

#: What lies within another resource and goes with it -> that one's type, and what the description calls its id.
PARENTS: Mapping[str, tuple[str, str]] = {
    INGRESS_RULE: ("aws_security_group", "GroupId"),
    EGRESS_RULE: ("aws_security_group", "GroupId"),
    "aws_iam_role_policy": ("aws_iam_role", "RoleName"),
}

#: What clusters can have of their own, beside their groups and secret.
OF_CLUSTERS = frozenset({
    "aws_iam_role", "aws_iam_role_policy", "aws_iam_instance_profile", "aws_security_group", *RULES, "aws_launch_template",
    "aws_placement_group",
})  # fmt: skip


@dataclass(frozen=True)
class Resource:
    """One resource."""

    #: What Terraform calls its kind.
    type: str
    #: Its id, as Terraform's state and ``terraform import`` have it: AWS's id, or the name of what
    #: has none.
    id: str
    #: Its tags.
    tags: Mapping[str, str] = field(default_factory=dict)
    #: What AWS says of it.
    description: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Owner:
    """Whose a resource is, by its tags: one cluster's, or the workspace's network's."""

    #: Name of the workspace.
    workspace: str
    #: Name of the cluster. None: the network.
    cluster: str | None = None

    @property
    def tags(self) -> dict[str, str]:
        """The tags that all of its resources carry."""
        return {TAG_WORKSPACE: self.workspace, **({} if self.cluster is None else {TAG_CLUSTER: self.cluster})}

    @property
    def filters(self) -> list[dict[str, Any]]:
        """The filters of AWS's lists by which what carries these tags is found."""
        return [{"Name": f"tag:{tag}", "Values": [value]} for tag, value in self.tags.items()]

    def owns(self, resource: Resource) -> bool:
        """Return whether a resource is its: never what carries other tags, or none."""
        tags = resource.tags
        return tags.get(TAG_WORKSPACE) == self.workspace and tags.get(TAG_CLUSTER) == self.cluster


def of_type(resources: Iterable[Resource], *types: str) -> Iterator[Resource]:
    """Return those of some types."""
    return (resource for resource in resources if resource.type in types)


def clusters_of(found: Iterable[Resource], workspace: str) -> set[str]:
    """Return the names of a workspace's clusters that resources belong to, by their tags."""
    tags = [resource.tags for resource in found]
    return {each[TAG_CLUSTER] for each in tags if each.get(TAG_WORKSPACE) == workspace and TAG_CLUSTER in each}


def unknown(found: Iterable[Resource], ids: Mapping[str, str]) -> list[Resource]:
    """Return the resources that a state doesn't know."""
    # With their types: a role and its instance profile have the same name.
    known = {(address.partition(".")[0], identity) for address, identity in ids.items()}
    return [resource for resource in found if (resource.type, resource.id) not in known]


def outermost(resources: Sequence[Resource]) -> list[Resource]:
    """Return resources without those that lie within another of them: rules of a group, policies of a role."""
    whole = {(resource.type, resource.id) for resource in resources}
    return [resource for resource in resources if _parent(resource) not in whole]


def _parent(resource: Resource) -> tuple[str, str] | None:
    if resource.type not in PARENTS:
        return None
    kind, key = PARENTS[resource.type]
    return kind, resource.description[key]
