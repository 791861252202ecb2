"""Roles, the network's and isolated clusters', with their policies, instance profiles and boundary.
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from terradask_modules.kinds.cluster_names import ClusterNames, Shape, exactly
from terradask_modules.kinds.kind import FREE, HOSTS_NEED_IT, Deletion, Named, ResourceKind
from terradask_modules.names import ROLES


def _named_as_its_role(**attributes: str) -> Shape:
    """Return the shape of what has such attributes, which name the role or its ARN."""

    def shape(names: ClusterNames, role: str) -> Mapping[str, str] | None:
        if role not in ROLES:
            return None
        name = names.role(role)
        arn = names.where.iam_arn(f"role{names.role_path}{name}")
        found = {key: text.format(role=name, arn=arn) for key, text in attributes.items()}
        return exactly(name=name, **found)

    return shape


# A role's boundary.
POLICY = ResourceKind(
    "aws_iam_policy",
    service="iam",
    find=Named(
        "get_policy", "PolicyArn", "Policy", "arn:{partition}:iam::{account}:policy{path}{name}"
    ),
    delete=Deletion("delete_policy", "PolicyArn"),
    adopt="named",
    price=FREE,
)
ROLE = ResourceKind(
    "aws_iam_role",
    service="iam",
    find=Named("get_role", "RoleName", "Role"),
    delete=Deletion("delete_role", "RoleName"),
    adopt="named",
    orphan="role",
    price=FREE,
    born="CreateDate",
    clusters="isolated",
    shape=_named_as_its_role(id="{role}", arn="{arn}"),
    loss_to_hosts=HOSTS_NEED_IT,
)
ROLE_POLICY = ResourceKind(
    "aws_iam_role_policy",
    service="iam",
    delete=Deletion("delete_role_policy", "PolicyName"),
    part_of=("aws_iam_role", "RoleName"),
    price=FREE,
    clusters="isolated",
    shape=_named_as_its_role(id="{role}:{role}", role="{role}"),
)
INSTANCE_PROFILE = ResourceKind(
    "aws_iam_instance_profile",
    service="iam",
    find=Named("get_instance_profile", "InstanceProfileName", "InstanceProfile"),
    delete=Deletion("delete_instance_profile", "InstanceProfileName"),
    adopt="named",
    orphan="instance-profile",
    price=FREE,
    born="CreateDate",
    clusters="isolated",
    shape=_named_as_its_role(id="{role}", role="{role}"),
    loss_to_hosts=HOSTS_NEED_IT,
)
