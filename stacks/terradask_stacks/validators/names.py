"""Names of workspaces and clusters."""

from __future__ import annotations

import re

from terradask_modules.errors import InvalidInput
from terradask_modules.names import (
    CLUSTER_PATTERN,
    NETWORK_STACK,
    OFFER_PATTERN,
    RESERVED_WORKSPACE,
    WORKSPACE_PATTERN,
)


def validate_workspace_name(name: str) -> str:
    """Return the workspace's name if the names made of it are ones that AWS accepts."""
    if name == RESERVED_WORKSPACE:
        raise InvalidInput(
            f"no workspace can be named {name}: its bucket would be that of the networks' states",
            given=name,
            allowed="any other name",
            advice="change workspace.name",
        )
    return _matching(
        name,
        WORKSPACE_PATTERN,
        whose="workspace",
        most_more=19,
        why="an S3 bucket's name, and AWS allows nothing else there",
        advice="change workspace.name",
    )


def validate_environment_name(name: str) -> str:
    """Return the environment's name if terradask accepts it."""
    return _matching(
        name,
        CLUSTER_PATTERN,
        whose="environment",
        most_more=31,
        why="object keys, and of the name of the cluster that builds it",
    )


def validate_offer_name(name: str) -> str:
    """Return the offer's name if a plan of it can have a name made of it."""
    return _matching(
        name,
        OFFER_PATTERN,
        whose="offer",
        most_more=25,
        why="the name of the stack that a plan of it has",
    )


def validate_budget_name(name: str) -> str:
    """Return the budget's name if AWS's can be made of it."""
    return _matching(
        name,
        CLUSTER_PATTERN,
        whose="budget",
        most_more=31,
        why="its name at AWS, terradask-WORKSPACE.NAME",
    )


def validate_cluster_name(name: str) -> str:
    """Return the cluster's name if AWS and terradask accept it.

    Raises `InvalidInput` with the rule and whose it is.
    """
    if name == NETWORK_STACK:
        raise InvalidInput(
            "no cluster can be named network",
            given=name,
            allowed="any other name: network is the stack that all clusters of a workspace share",
            advice="choose another name",
        )
    return _matching(
        name,
        CLUSTER_PATTERN,
        whose="cluster",
        most_more=31,
        why="object keys, a secret's name and tag values, and of group names that AWS limits",
    )


def _matching(
    name: str,
    pattern: str,
    *,
    whose: str,
    most_more: int,
    why: str,
    advice: str = "choose another name",
) -> str:
    if not re.fullmatch(pattern, name):
        like = re.sub(r"[^a-z0-9]+", "-", name.lower()).lstrip("-0123456789")
        like = like[: most_more + 1].rstrip("-")
        raise InvalidInput(
            f"the {whose}'s name can't be used",
            given=name,
            allowed=f"a lower-case letter, then up to {most_more} lower-case letters, digits and "
            f"hyphens: the name becomes part of {why}",
            advice=f"{advice}, such as {like!r}" if re.fullmatch(pattern, like) else advice,
        )
    return name
