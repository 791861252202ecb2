"""Roles, the network's and isolated clusters', with their policies, instance profiles and boundary.
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from terradask_modules.kinds.cluster_names import ClusterNames, exactly
from terradask_modules.kinds.kind import FREE, HOSTS_NEED_IT, Deletion, Named, ResourceKind
from terradask_modules.names import ROLES


def _role(names: ClusterNames, role: str) -> Mapping[str, str] | None:
    if role not in ROLES:
        return None
    name = names.role(role)
    arn = names.where.iam_arn(f"role{names.role_path}{name}")
    return exactly(id=name, name=name, arn=arn)


def _role_policy(names: ClusterNames, role: str) -> Mapping[str, str] | None:
    name = names.role(role)
    return exactly(id=f"{name}:{name}", name=name, role=name) if role in ROLES else None


def _instance_profile(names: ClusterNames, role: str) -> Mapping[str, str] | None:
    name = names.role(role)
    return exactly(id=name, name=name, role=name) if role in ROLES else None


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
    shape=_role,
    loss_to_hosts=HOSTS_NEED_IT,
)
ROLE_POLICY = ResourceKind(
    "aws_iam_role_policy",
    service="iam",
    delete=Deletion("delete_role_policy", "PolicyName"),
    part_of=("aws_iam_role", "RoleName"),
    price=FREE,
    clusters="isolated",
    shape=_role_policy,
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
    shape=_instance_profile,
    loss_to_hosts=HOSTS_NEED_IT,
)
