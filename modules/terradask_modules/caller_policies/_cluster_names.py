"""Names of the roles of some clusters alone, and of others that match the same patterns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from terradask_modules.errors import InvalidInput
from terradask_modules.names import CLUSTER_PATTERN, ROLES, host_name, role_name
from terradask_modules.where import Where


def names_of_roles(where: Where, clusters: Sequence[str], prefix: str) -> list[str]:
    """Return the names, or patterns, of the roles of clusters."""
    return [
        name
        for cluster in clusters
        for name in (
            [f"{prefix}{_beginning(where.workspace, cluster)}*"]
            if cluster.endswith("*")
            else [role_name(where.workspace, role, prefix, cluster) for role in ROLES]
        )
    ]


def names_of_others(where: Where, clusters: Sequence[str], prefix: str) -> list[str]:
    """Return the names of roles that these patterns match too, of clusters with other names.

    ``team-a-*`` matches ``team-a-worker``, a role of the cluster ``team-a``.
    """
    beginnings = [cluster[:-1] for cluster in clusters if cluster.endswith("*")]
    others = {
        (cluster, role)
        for beginning in beginnings
        for length in range(1, len(beginning))
        for role in ROLES
        if re.fullmatch(CLUSTER_PATTERN, cluster := beginning[:length])
        and f"-{role}".startswith(beginning[length:])
        and not any(fnmatchcase(cluster, one) for one in clusters)
    }
    return [role_name(where.workspace, role, prefix, cluster) for cluster, role in sorted(others)]


def check_names(
    where: Where, names: Sequence[str], *, isolated: bool, boundary: str | None
) -> None:
    """Raise `InvalidInput` if a caller's own clusters couldn't be kept apart from others."""
    if not names:
        return
    given = ", ".join(names)
    if not isolated:
        raise InvalidInput(
            "in this workspace hosts of all clusters share their roles, so who has one cluster "
            "reaches the others through its hosts",
            given=given,
            allowed='workspaces with isolation = "cluster"',
            advice='set workspace.isolation = "cluster", or give each team a workspace',
        )
    if boundary is not None:
        raise InvalidInput(
            "roles of clusters get network.permissions_boundary, which allows them more than "
            "their own cluster",
            given=f"{given} with {boundary}",
            allowed="the boundary that the network makes, of each role's own cluster alone",
            advice="leave out network.permissions_boundary, or give each team a workspace",
        )
    for name in names:
        beginning = _beginning(where.workspace, name)
        # Longer names of roles are cut and numbered.
        if name.endswith("*") and not role_name(
            where.workspace, ROLES[0], cluster=f"{name[:-1]}{'x' * 40}"
        ).startswith(beginning):
            raise InvalidInput(
                "roles of clusters with such names can't be distinguished: IAM cuts their names",
                given=name,
                advice="use a shorter beginning of names, or whole names",
            )


def _beginning(workspace: str, pattern: str) -> str:
    return host_name(workspace, "", pattern.removesuffix("*")).removesuffix("-")
