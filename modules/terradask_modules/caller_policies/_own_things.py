"""Rights for clusters with own roles, security groups and launch templates, or only templates.

Each ``Sid`` ends with ``OfClusters``: without these statements a caller can run clusters that
another caller has deployed.
"""

from __future__ import annotations

from collections.abc import Iterable

from terradask_modules.caller_policies._by_kind import (
    KEEP_INSTANCE_PROFILES,
    MAKE_BOUNDED_ROLES,
    RULES,
    SEE_ROLES,
    TAG_AND_REMOVE_ROLES,
    of_ec2,
    rights_of,
    see_in_ec2,
)
from terradask_modules.caller_policies._scope import CallerScope, demanding
from terradask_modules.iam import Statement, allow, both, deny, listed, one_or_many
from terradask_modules.kinds import KINDS
from terradask_modules.kinds.kind import ResourceKind, Rights

_RULE = "security-group-rule"
_MAKE_ROLE, _MAKE_PROFILE = "iam:CreateRole", "iam:CreateInstanceProfile"
_TAG = ("iam:TagInstanceProfile", "iam:TagRole")
_UNTAG = ("iam:UntagInstanceProfile", "iam:UntagRole")


def _own(scope: CallerScope) -> list[ResourceKind]:
    """Return each kind that clusters have of their own here."""
    whose = ("templates", "isolated") if scope.isolated else ("templates",)
    return [kind for kind in KINDS.values() if kind.clusters in whose]


def see_own_things(scope: CallerScope) -> list[Statement]:
    """Return the rights to plan such clusters, in addition to those for any cluster."""
    seen = see_in_ec2(_own(scope))
    if not scope.isolated:
        templates = scope.see("SeeTemplatesOfClusters", one_or_many(of_ec2(seen)))
        return [templates] if scope.own_templates else []
    # Before a security group is removed, Terraform looks for interfaces in it.
    seen += ["DescribeNetworkInterfaces", "DescribeSecurityGroupRules"]
    return [
        scope.see("SeeFirewallsAndTemplatesOfClusters", of_ec2(seen)),
        allow("SeeRolesOfClusters", list(SEE_ROLES), scope.asked_for([scope.clusters_roles])),
        allow(
            "SeeInstanceProfilesOfClusters",
            "iam:GetInstanceProfile",
            scope.asked_for([scope.clusters_instance_profiles]),
        ),
    ]


def see_roles_of_gone_clusters(scope: CallerScope) -> list[Statement]:
    """Return the right to list roles, to find those of gone clusters; it has no resource."""
    return [allow("ListRolesOfClusters", "iam:ListRoles", "*")] if scope.isolated else []


def change_own_things(scope: CallerScope) -> list[Statement]:
    """Return the rights to make, change and remove such clusters, in addition to the usual ones."""
    roles = _roles(scope) if scope.isolated else []
    own = _firewalls_and_templates(scope) if scope.isolated or scope.own_templates else []
    return [*roles, *own]


def _roles(scope: CallerScope) -> list[Statement]:
    kinds = ("role", "instance-profile")
    roles, profiles = (one_or_many(scope.of_own_clusters(kind)) for kind in kinds)
    both_kinds = [*listed(roles), *listed(profiles)]
    bounded = demanding(scope.clusters_boundary)
    return [
        # Whatever rights such a role gets, the boundary limits them; it can't be removed, and none
        # of these callers may change it.
        allow("MakeRolesOfClusters", _MAKE_ROLE, roles, both(scope.tagged_for_a_cluster, bounded)),
        allow("ChangeRolesOfClusters", _besides(MAKE_BOUNDED_ROLES), roles, bounded),
        *scope.attach("AttachPoliciesOfTasksOfClusters", roles, bounded),
        allow("RemoveRolesOfClusters", _besides(TAG_AND_REMOVE_ROLES), roles),
        allow("KeepInstanceProfilesOfClusters", _besides(KEEP_INSTANCE_PROFILES), profiles),
        # Tags identify a role's owner: set at creation, they never change.
        allow(
            "TagRolesAtBirthOfClusters",
            [_MAKE_PROFILE, *_TAG],
            both_kinds,
            both(scope.tagged_for_a_cluster, scope.moving_to_no_other_cluster),
        ),
        allow(
            "TagRolesOfClusters",
            [*_TAG, *_UNTAG],
            both_kinds,
            scope.keeping_the_tags_of_a_cluster,
        ),
        *_without_others(scope),
    ]


def _without_others(scope: CallerScope) -> list[Statement]:
    """Return the denial of roles of other clusters whose names begin like the caller's own."""
    roles, profiles = (scope.of_other_clusters(kind) for kind in ("role", "instance-profile"))
    if not roles:
        return []
    changes = [
        "iam:PassRole",
        "iam:AttachRolePolicy",
        *MAKE_BOUNDED_ROLES,
        *TAG_AND_REMOVE_ROLES,
        *KEEP_INSTANCE_PROFILES,
    ]
    return [deny("LeaveRolesOfOtherClusters", sorted(changes), [*roles, *profiles])]


def _besides(actions: Iterable[str]) -> list[str]:
    """Return actions without those that have conditions about tags."""
    return [one for one in actions if one not in (_MAKE_ROLE, _MAKE_PROFILE, *_TAG, *_UNTAG)]


def _firewalls_and_templates(scope: CallerScope) -> list[Statement]:
    """Return the same rights for security groups and launch templates, or only templates.

    The network's own have no cluster's tag, so these rights don't reach them.
    """
    own, rules = rights_of(_own(scope)), RULES if scope.isolated else ()
    made, arns = [one.make for one in own], scope.ec2(*(one.type for one in own))
    kept = [*arns, *(scope.ec2(_RULE) if rules else [])]
    what = "" if scope.isolated else "Templates"
    return [
        allow(
            f"Make{what or 'FirewallsAndTemplates'}OfClusters",
            of_ec2(made),
            arns,
            scope.tagged_for_a_cluster,
        ),
        *(_within_the_vpc(scope, own) if scope.isolated else []),
        scope.tag_at_birth(
            f"Tag{what}AtBirthOfClusters", kept, scope.tagged_for_a_cluster, [*made, *rules]
        ),
        # The workspace's tag and the cluster's never change, so that no resource moves between
        # workspaces or to the network.
        allow(
            f"Tag{what or 'Own'}OfClusters",
            ["ec2:CreateTags", "ec2:DeleteTags"],
            kept,
            scope.keeping_the_tags_of_a_cluster,
        ),
        allow(
            f"ChangeAndRemove{what or 'Own'}OfClusters",
            of_ec2(action for one in own for action in one.change),
            kept,
            scope.owned_by_a_cluster,
        ),
    ]


def _within_the_vpc(scope: CallerScope, own: list[Rights]) -> list[Statement]:
    vpc, of_vpc = (
        ("vpc/*", scope.where.own) if scope.given_vpc is None else (f"vpc/{scope.given_vpc}", None)
    )
    in_vpc = [one.make for one in own if one.within == "vpc"]
    return [
        allow("MakeFirewallsInVpcOfClusters", of_ec2(in_vpc), scope.ec2(vpc), of_vpc),
        allow("MakeRulesOfClusters", of_ec2(RULES), scope.ec2(_RULE), scope.tagged_for_a_cluster),
    ]
