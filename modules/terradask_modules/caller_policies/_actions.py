"""Actions by the kind of what they make or change: the network, and clusters with things of their
own, need the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable

from terradask_modules.kinds import KINDS, Listed, action_of

_RIGHTS = [kind.rights for kind in KINDS.values() if kind.rights is not None]
#: What EC2 makes, by its type in ARNs: how.
MADE_ALONE = {one.type: one.make for one in _RIGHTS if one.within == "nothing"}
#: Made within a VPC; the request names nothing else.
MADE_IN_VPC = {one.type: one.make for one in _RIGHTS if one.within == "vpc"}
#: Made of other resources of the network.
MADE_OF_OTHERS = {one.type: one.make for one in _RIGHTS if one.within == "others"}
#: By which rules of a security group are made.
RULES = ("AuthorizeSecurityGroupEgress", "AuthorizeSecurityGroupIngress")
#: What is done to it afterwards.
CHANGES = {one.type: one.change for one in _RIGHTS}
#: What is done to a network that has, gets or loses IPv6 addresses.
DUAL_STACK_CHANGES = {one.type: one.dual_stack for one in _RIGHTS}
#: How EC2 lists what a network is searched for, whatever is configured.
SEE_ALWAYS = [
    action_of(kind.find.call)
    for kind in KINDS.values()
    if isinstance(kind.find, Listed) and not kind.is_optional
]

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


def of_ec2(actions: Iterable[str]) -> list[str]:
    """Return EC2's actions in order, as policies name them."""
    return sorted(f"ec2:{action}" for action in actions)
