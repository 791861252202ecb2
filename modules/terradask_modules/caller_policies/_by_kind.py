"""Actions by kind of resource, and rights on the kinds that a cluster, or the network by a setting,
can have.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from terradask_modules.caller_policies._scope import CallerScope
from terradask_modules.iam import Statement, allow, one_or_many
from terradask_modules.kinds import KINDS
from terradask_modules.kinds.kind import Listed, ResourceKind, Rights, action_of

#: Actions that make a security group's rules.
RULES = ("AuthorizeSecurityGroupEgress", "AuthorizeSecurityGroupIngress")

SEE_ROLES = (
    "iam:GetRole",
    "iam:GetRolePolicy",
    "iam:ListAttachedRolePolicies",
    "iam:ListRolePolicies",
)
#: Actions that a role's permissions boundary can be a condition of.
MAKE_ROLES = (
    "iam:CreateRole",
    "iam:DeleteRolePolicy",
    "iam:DetachRolePolicy",
    "iam:PutRolePolicy",
)
#: The same if a boundary is required: a role can get one, and there is no right to remove it.
MAKE_BOUNDED_ROLES = tuple(sorted([*MAKE_ROLES, "iam:PutRolePermissionsBoundary"]))
TAG_AND_REMOVE_ROLES = (
    "iam:DeleteRole",
    "iam:ListInstanceProfilesForRole",
    "iam:TagRole",
    "iam:UntagRole",
)
KEEP_INSTANCE_PROFILES = (
    "iam:AddRoleToInstanceProfile",
    "iam:CreateInstanceProfile",
    "iam:DeleteInstanceProfile",
    "iam:RemoveRoleFromInstanceProfile",
    "iam:TagInstanceProfile",
    "iam:UntagInstanceProfile",
)


def rights_of(kinds: Iterable[ResourceKind]) -> list[Rights]:
    """Return EC2's actions on kinds, by their types in ARNs, for those that callers make."""
    return sorted((one.rights for one in kinds if one.rights), key=lambda rights: rights.type)


def see_in_ec2(kinds: Iterable[ResourceKind]) -> list[str]:
    """Return the actions by which EC2 lists kinds, if it lists them."""
    return [action_of(one.find.call) for one in kinds if isinstance(one.find, Listed)]


def see_always() -> list[str]:
    """Return EC2's actions for listing a network's parts under any configuration."""
    return see_in_ec2(one for one in KINDS.values() if not one.is_optional)


def of_ec2(actions: Iterable[str]) -> list[str]:
    """Return EC2's actions in order, in policies' form."""
    return sorted(f"ec2:{action}" for action in actions)


def of_each() -> list[ResourceKind]:
    """Return the kinds of which each cluster can have its own."""
    return [kind for kind in KINDS.values() if kind.clusters == "each"]


def see_of_each(scope: CallerScope) -> list[Statement]:
    """Return the rights to see clusters' own resources, in addition to clusters."""
    return [
        scope.see(see.replace("Describe", "See"), f"ec2:{see}") for see in see_in_ec2(of_each())
    ]


def keep_of_each(scope: CallerScope) -> list[Statement]:
    """Return the rights to make, use and remove clusters' own resources; tags never change."""
    return [one for rights in rights_of(of_each()) for one in _keep(scope, rights)]


def _keep(scope: CallerScope, rights: Rights) -> list[Statement]:
    what, arns = f"{rights.make.removeprefix('Create')}s", scope.ec2(rights.type)
    return [
        allow(f"Make{what}", f"ec2:{rights.make}", arns, scope.tagged_for_a_cluster),
        scope.tag_at_birth(f"Tag{what}AtBirth", arns, scope.tagged_for_a_cluster, [rights.make]),
        allow(f"Use{what}", of_ec2(rights.change), arns, scope.owned_by_a_cluster),
    ]


def by_settings(scope: CallerScope, what: Literal["see", "keep"]) -> list[Statement]:
    """Return the rights to plan, or to make, change and remove, the settings' parts outside EC2."""
    statements = []
    for access in (kind.access for kind in KINDS.values() if scope.has(kind)):
        if access is not None:
            sid, actions = access.see if what == "see" else access.keep
            asked = one_or_many(actions)
            statements.append(
                scope.see(sid, asked)
                if access.arn is None
                else allow(sid, asked, access.arn(scope.where))
            )
    return statements
