"""What clusters in a placement group of their own need besides."""

from __future__ import annotations

from terradask_modules.caller_policies._actions import CHANGES, MADE_ALONE, of_ec2
from terradask_modules.caller_policies._scope import CallerScope
from terradask_modules.iam import Statement, allow, both

_KIND = "placement-group"
_MAKE = MADE_ALONE[_KIND]


def see_placement_groups(scope: CallerScope) -> Statement:
    """Return what looking for them needs, beside seeing clusters."""
    # Describe calls know no resources.
    return allow("SeePlacementGroups", "ec2:DescribePlacementGroups", "*", scope.in_region)


def keep_placement_groups(scope: CallerScope) -> list[Statement]:
    """Return what making and removing them needs, and launching there. Their tags never change."""
    groups = scope.ec2(_KIND)
    at_birth = {"StringEquals": {"ec2:CreateAction": [_MAKE]}}
    return [
        allow("MakePlacementGroups", f"ec2:{_MAKE}", groups, scope.tagged_for_a_cluster),
        allow(
            "TagPlacementGroupsAtBirth",
            "ec2:CreateTags",
            groups,
            both(scope.tagged_for_a_cluster, at_birth),
        ),
        allow(
            "UsePlacementGroups",
            of_ec2([*CHANGES[_KIND], "RunInstances"]),
            groups,
            scope.owned_by_a_cluster,
        ),
    ]
