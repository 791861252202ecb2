"""What clusters need besides where each makes roles, security groups and launch templates of its
own, or templates alone.

Each ``Sid`` ends with ``OfClusters``: without these statements a caller runs clusters that another
caller has deployed.
"""

from __future__ import annotations

from collections.abc import Iterable

from terradask_modules.caller_policies._actions import (
    CHANGES,
    KEEP_INSTANCE_PROFILES,
    MADE_ALONE,
    MADE_IN_VPC,
    MAKE_BOUNDED_ROLES,
    RULES,
    SEE_ROLES,
    TAG_AND_REMOVE_ROLES,
    of_ec2,
)
from terradask_modules.caller_policies._scope import CallerScope, demanding
from terradask_modules.iam import Statement, allow, both

_TEMPLATE = "launch-template"
_KINDS = (_TEMPLATE, "security-group")
_RULE = "security-group-rule"
_MAKE_FIREWALL = MADE_IN_VPC["security-group"]
_MAKE = (MADE_ALONE["launch-template"], _MAKE_FIREWALL)
_MAKE_ROLE, _MAKE_PROFILE = "iam:CreateRole", "iam:CreateInstanceProfile"
_TAG = ("iam:TagInstanceProfile", "iam:TagRole")
_UNTAG = ("iam:UntagInstanceProfile", "iam:UntagRole")


def see_own_things(scope: CallerScope) -> list[Statement]:
    """Return what planning such clusters needs, beside what planning any does."""
    if not scope.isolated:
        return (
            [allow("SeeTemplatesOfClusters", "ec2:DescribeLaunchTemplates", "*", scope.in_region)]
            if scope.own_templates
            else []
        )
    return [
        # Describe calls know no resources. Before a security group is removed, Terraform looks for
        # interfaces in it.
        allow(
            "SeeFirewallsAndTemplatesOfClusters",
            [
                "ec2:DescribeLaunchTemplates",
                "ec2:DescribeNetworkInterfaces",
                "ec2:DescribeSecurityGroupRules",
                "ec2:DescribeSecurityGroups",
            ],
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
    at_birth = {"StringEquals": {"ec2:CreateAction": [*_MAKE, *RULES]}}
    return [
        allow(
            "MakeFirewallsAndTemplatesOfClusters",
            of_ec2(_MAKE),
            scope.ec2(*_KINDS),
            scope.tagged_for_a_cluster,
        ),
        allow("MakeFirewallsInVpcOfClusters", of_ec2([_MAKE_FIREWALL]), scope.ec2(vpc), of_vpc),
        allow("MakeRulesOfClusters", of_ec2(RULES), scope.ec2(_RULE), scope.tagged_for_a_cluster),
        allow(
            "TagAtBirthOfClusters",
            "ec2:CreateTags",
            scope.ec2(*_KINDS, _RULE),
            both(scope.tagged_for_a_cluster, at_birth),
        ),
        # The workspace's tag and the cluster's never change, so that nothing moves between
        # workspaces, or into the network's hands.
        allow(
            "TagOwnOfClusters",
            ["ec2:CreateTags", "ec2:DeleteTags"],
            scope.ec2(*_KINDS, _RULE),
            scope.keeping_the_tags_of_a_cluster,
        ),
        allow(
            "ChangeAndRemoveOwnOfClusters",
            of_ec2(action for kind in _KINDS for action in CHANGES[kind]),
            scope.ec2(*_KINDS, _RULE),
            scope.owned_by_a_cluster,
        ),
    ]


def _templates(scope: CallerScope) -> list[Statement]:
    """Return the same for launch templates alone, by the same tags."""
    template, make = scope.ec2(_TEMPLATE), MADE_ALONE[_TEMPLATE]
    at_birth = {"StringEquals": {"ec2:CreateAction": [make]}}
    return [
        allow("MakeTemplatesOfClusters", of_ec2([make]), template, scope.tagged_for_a_cluster),
        allow(
            "TagTemplatesAtBirthOfClusters",
            "ec2:CreateTags",
            template,
            both(scope.tagged_for_a_cluster, at_birth),
        ),
        allow(
            "TagTemplatesOfClusters",
            ["ec2:CreateTags", "ec2:DeleteTags"],
            template,
            scope.keeping_the_tags_of_a_cluster,
        ),
        allow(
            "ChangeAndRemoveTemplatesOfClusters",
            of_ec2(CHANGES[_TEMPLATE]),
            template,
            scope.owned_by_a_cluster,
        ),
    ]
