"""What clusters need besides where each makes roles, security groups and launch templates of its
own, or templates alone.

Each ``Sid`` ends with ``OfClusters``: without these statements a caller runs clusters that another
caller has deployed.
"""

from __future__ import annotations

from collections.abc import Iterable

from terradask_modules.caller_policies._actions import (
    KEEP_INSTANCE_PROFILES,
    MAKE_BOUNDED_ROLES,
    RULES,
    SEE_ROLES,
    TAG_AND_REMOVE_ROLES,
    of_ec2,
    one_or_more,
    rights_of,
    see_in_ec2,
)
from terradask_modules.caller_policies._scope import CallerScope, demanding
from terradask_modules.iam import Statement, allow, both
from terradask_modules.kinds import KINDS
from terradask_modules.kinds.kind import ResourceKind

_RULE = "security-group-rule"
_MAKE_ROLE, _MAKE_PROFILE = "iam:CreateRole", "iam:CreateInstanceProfile"
_TAG = ("iam:TagInstanceProfile", "iam:TagRole")
_UNTAG = ("iam:UntagInstanceProfile", "iam:UntagRole")


def _own(scope: CallerScope) -> list[ResourceKind]:
    """Return the kinds that clusters have of their own here, each of them."""
    whose = ("templates", "isolated") if scope.isolated else ("templates",)
    return [kind for kind in KINDS.values() if kind.clusters in whose]


def _see_in_ec2(scope: CallerScope) -> list[str]:
    return of_ec2(see_in_ec2(_own(scope)))


def see_own_things(scope: CallerScope) -> list[Statement]:
    """Return what planning such clusters needs, beside what planning any does."""
    if not scope.isolated:
        return (
            [allow("SeeTemplatesOfClusters", one_or_more(_see_in_ec2(scope)), "*", scope.in_region)]
            if scope.own_templates
            else []
        )
    return [
        # Describe calls know no resources. Before a security group is removed, Terraform looks for
        # interfaces in it.
        allow(
            "SeeFirewallsAndTemplatesOfClusters",
            sorted(
                [
                    *_see_in_ec2(scope),
                    "ec2:DescribeNetworkInterfaces",
                    "ec2:DescribeSecurityGroupRules",
                ]
            ),
            "*",
            scope.in_region,
        ),
        allow("SeeRolesOfClusters", list(SEE_ROLES), scope.asked_for([scope.clusters_roles])),
        allow(
            "SeeInstanceProfilesOfClusters",
            "iam:GetInstanceProfile",
            scope.asked_for([scope.clusters_instance_profiles]),
        ),
    ]


def see_roles_of_gone_clusters(scope: CallerScope) -> list[Statement]:
    """Return the right to list roles, by which those are found of whose cluster nothing else is
    left. IAM can't bound it.
    """
    return [allow("ListRolesOfClusters", "iam:ListRoles", "*")] if scope.isolated else []


def change_own_things(scope: CallerScope) -> list[Statement]:
    """Return what making, changing and removing such clusters needs, beside what any needs."""
    if scope.isolated:
        return [*_roles(scope), *_firewalls_and_templates(scope)]
    return _templates(scope) if scope.own_templates else []


def _roles(scope: CallerScope) -> list[Statement]:
    roles, profiles = scope.clusters_roles, scope.clusters_instance_profiles
    bounded = demanding(scope.clusters_boundary)
    return [
        # Whatever such a role is given, it may do no more than the boundary, which is never taken
        # away and none of these callers may change.
        allow("MakeRolesOfClusters", _MAKE_ROLE, roles, both(scope.tagged_for_a_cluster, bounded)),
        allow("ChangeRolesOfClusters", _besides(MAKE_BOUNDED_ROLES), roles, bounded),
        allow("RemoveRolesOfClusters", _besides(TAG_AND_REMOVE_ROLES), roles),
        allow("KeepInstanceProfilesOfClusters", _besides(KEEP_INSTANCE_PROFILES), profiles),
        # Tags say whose a role is: given at birth, they never change.
        allow(
            "TagRolesAtBirthOfClusters",
            [_MAKE_PROFILE, *_TAG],
            [roles, profiles],
            both(scope.tagged_for_a_cluster, scope.moving_to_no_other_cluster),
        ),
        allow(
            "TagRolesOfClusters",
            [*_TAG, *_UNTAG],
            [roles, profiles],
            scope.keeping_the_tags_of_a_cluster,
        ),
    ]


def _besides(actions: Iterable[str]) -> list[str]:
    """Return actions without those that have conditions about tags."""
    return [one for one in actions if one not in (_MAKE_ROLE, _MAKE_PROFILE, *_TAG, *_UNTAG)]


def _firewalls_and_templates(scope: CallerScope) -> list[Statement]:
    # The network's own groups and templates carry no cluster's tag, so none of this reaches them.
    vpc, of_vpc = (
        ("vpc/*", scope.owned) if scope.given_vpc is None else (f"vpc/{scope.given_vpc}", None)
    )
    own = rights_of(_own(scope))
    types = [*(one.type for one in own), _RULE]
    make, in_vpc = [one.make for one in own], [one.make for one in own if one.within == "vpc"]
    at_birth = {"StringEquals": {"ec2:CreateAction": [*make, *RULES]}}
    return [
        allow(
            "MakeFirewallsAndTemplatesOfClusters",
            of_ec2(make),
            scope.ec2(*(one.type for one in own)),
            scope.tagged_for_a_cluster,
        ),
        allow("MakeFirewallsInVpcOfClusters", of_ec2(in_vpc), scope.ec2(vpc), of_vpc),
        allow("MakeRulesOfClusters", of_ec2(RULES), scope.ec2(_RULE), scope.tagged_for_a_cluster),
        allow(
            "TagAtBirthOfClusters",
            "ec2:CreateTags",
            scope.ec2(*types),
            both(scope.tagged_for_a_cluster, at_birth),
        ),
        # The workspace's tag and the cluster's never change, so that nothing moves between
        # workspaces, or into the network's hands.
        allow(
            "TagOwnOfClusters",
            ["ec2:CreateTags", "ec2:DeleteTags"],
            scope.ec2(*types),
            scope.keeping_the_tags_of_a_cluster,
        ),
        allow(
            "ChangeAndRemoveOwnOfClusters",
            of_ec2(action for one in own for action in one.change),
            scope.ec2(*types),
            scope.owned_by_a_cluster,
        ),
    ]


def _templates(scope: CallerScope) -> list[Statement]:
    """Return the same for launch templates alone, by the same tags."""
    own = rights_of(_own(scope))
    templates, make = scope.ec2(*(one.type for one in own)), [one.make for one in own]
    at_birth = {"StringEquals": {"ec2:CreateAction": make}}
    return [
        allow("MakeTemplatesOfClusters", of_ec2(make), templates, scope.tagged_for_a_cluster),
        allow(
            "TagTemplatesAtBirthOfClusters",
            "ec2:CreateTags",
            templates,
            both(scope.tagged_for_a_cluster, at_birth),
        ),
        allow(
            "TagTemplatesOfClusters",
            ["ec2:CreateTags", "ec2:DeleteTags"],
            templates,
            scope.keeping_the_tags_of_a_cluster,
        ),
        allow(
            "ChangeAndRemoveTemplatesOfClusters",
            of_ec2(action for one in own for action in one.change),
            templates,
            scope.owned_by_a_cluster,
        ),
    ]
