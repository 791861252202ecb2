"""Actions by the kind of what they make or change, and what kinds need that each cluster can have,
or the network by a setting.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from terradask_modules.caller_policies._scope import CallerScope
from terradask_modules.iam import Statement, allow, one_or_many
from terradask_modules.kinds import KINDS
from terradask_modules.kinds.kind import Listed, ResourceKind, Rights, action_of

#: By which rules of a security group are made.
RULES = ("AuthorizeSecurityGroupEgress", "AuthorizeSecurityGroupIngress")

SEE_ROLES = (
    "iam:GetRole",
    "iam:GetRolePolicy",
    "iam:ListAttachedRolePolicies",
    "iam:ListRolePolicies",
)
#: What a role's permissions boundary can be a condition of.
MAKE_ROLES = (
    "iam:CreateRole",
    "iam:DeleteRolePolicy",
    "iam:DetachRolePolicy",
    "iam:PutRolePolicy",
)
#: The same, where a boundary is demanded: it can be put on a role, and there is no right to take it
#: away.
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
    """Return what EC2 calls the actions on kinds, by their types in ARNs, of those that callers
    make there.
    """
    return sorted((one.rights for one in kinds if one.rights), key=lambda rights: rights.type)


def see_in_ec2(kinds: Iterable[ResourceKind]) -> list[str]:
    """Return the actions by which EC2 lists kinds, of those that it lists."""
    return [action_of(one.find.call) for one in kinds if isinstance(one.find, Listed)]


def see_always() -> list[str]:
    """Return how EC2 lists what a network is searched for, whatever is configured."""
    return see_in_ec2(one for one in KINDS.values() if not one.is_optional)


def of_ec2(actions: Iterable[str]) -> list[str]:
    """Return EC2's actions in order, as policies name them."""
    return sorted(f"ec2:{action}" for action in actions)


def of_each() -> list[ResourceKind]:
    """Return the kinds of which each cluster can have its own."""
    return [kind for kind in KINDS.values() if kind.clusters == "each"]


def see_of_each(scope: CallerScope) -> list[Statement]:
    """Return what looking for clusters' own needs, beside seeing clusters."""
    return [
        scope.see(see.replace("Describe", "See"), f"ec2:{see}") for see in see_in_ec2(of_each())
    ]


def keep_of_each(scope: CallerScope) -> list[Statement]:
    """Return what making, using and removing clusters' own needs. Their tags never change."""
    return [one for rights in rights_of(of_each()) for one in _keep(scope, rights)]


def _keep(scope: CallerScope, rights: Rights) -> list[Statement]:
    what, arns = f"{rights.make.removeprefix('Create')}s", scope.ec2(rights.type)
    return [
        allow(f"Make{what}", f"ec2:{rights.make}", arns, scope.tagged_for_a_cluster),
        scope.tag_at_birth(f"Tag{what}AtBirth", arns, scope.tagged_for_a_cluster, [rights.make]),
        allow(f"Use{what}", of_ec2(rights.change), arns, scope.owned_by_a_cluster),
    ]


def by_settings(scope: CallerScope, what: Literal["see", "keep"]) -> list[Statement]:
    """Return what planning what the settings ask for outside of EC2 needs, or what making, changing
    and removing it needs besides.
    """
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
