"""What kinds of resources need that each cluster can have, or the network by a setting."""

from __future__ import annotations

from typing import Literal

from terradask_modules.caller_policies._actions import of_ec2, one_or_more, rights_of, see_in_ec2
from terradask_modules.caller_policies._scope import CallerScope
from terradask_modules.iam import Statement, allow, both
from terradask_modules.kinds import KINDS
from terradask_modules.kinds.kind import ResourceKind, Rights


def of_each() -> list[ResourceKind]:
    """Return the kinds of which each cluster can have its own."""
    return [kind for kind in KINDS.values() if kind.clusters == "each"]


def see_of_each(scope: CallerScope) -> list[Statement]:
    """Return what looking for clusters' own needs, beside seeing clusters."""
    # Describe calls know no resources.
    return [
        allow(see.replace("Describe", "See"), f"ec2:{see}", "*", scope.in_region)
        for see in see_in_ec2(of_each())
    ]


def keep_of_each(scope: CallerScope) -> list[Statement]:
    """Return what making, using and removing clusters' own needs. Their tags never change."""
    return [one for rights in rights_of(of_each()) for one in _keep(scope, rights)]


def _keep(scope: CallerScope, rights: Rights) -> list[Statement]:
    what, arns = f"{rights.make.removeprefix('Create')}s", scope.ec2(rights.type)
    at_birth = {"StringEquals": {"ec2:CreateAction": [rights.make]}}
    return [
        allow(f"Make{what}", f"ec2:{rights.make}", arns, scope.tagged_for_a_cluster),
        allow(
            f"Tag{what}AtBirth",
            "ec2:CreateTags",
            arns,
            both(scope.tagged_for_a_cluster, at_birth),
        ),
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
            # Where AWS knows no resource, the region is the narrowest bound.
            where = ("*", scope.in_region) if access.arn is None else (access.arn(scope.where),)
            statements.append(allow(sid, one_or_more(actions), *where))
    return statements
