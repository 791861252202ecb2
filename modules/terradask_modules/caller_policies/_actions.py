"""Actions by the kind of what they make or change: the network, and clusters with things of their
own, need the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
MAKE_BOUNDED_ROLES = (
    "iam:CreateRole",
    "iam:DeleteRolePolicy",
    "iam:DetachRolePolicy",
    "iam:PutRolePermissionsBoundary",
    "iam:PutRolePolicy",
)
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


def one_or_more(actions: Sequence[str]) -> str | list[str]:
    """Return actions as policies have them: a single one without a list."""
    return actions[0] if len(actions) == 1 else list(actions)


def of_ec2(actions: Iterable[str]) -> list[str]:
    """Return EC2's actions in order, as policies name them."""
    return sorted(f"ec2:{action}" for action in actions)
