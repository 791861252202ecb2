"""Names of workspaces and clusters."""

from __future__ import annotations

import re

from terradask_modules.errors import InvalidInput
from terradask_modules.names import CLUSTER_PATTERN, NETWORK_STACK, WORKSPACE_PATTERN


def validate_workspace_name(name: str) -> str:
    """Return the workspace's name if the names made of it are ones that AWS accepts."""
    if not re.fullmatch(WORKSPACE_PATTERN, name):
        raise InvalidInput(
            "the workspace's name can't be used",
            given=name,
            allowed="a lower-case letter, then up to 19 lower-case letters, digits and hyphens: "
            "the name becomes part of an S3 "
            "bucket's name, and AWS allows nothing else there",
            advice="change workspace.name",
        )
    return name


def validate_environment_name(name: str) -> str:
    """Return the environment's name if terradask accepts it."""
    if not re.fullmatch(CLUSTER_PATTERN, name):
        raise InvalidInput(
            "the environment's name can't be used",
            given=name,
            allowed="a lower-case letter, then up to 31 lower-case letters, digits and hyphens: "
            "the name becomes part of object keys, and of the name of the cluster that builds it",
            advice="choose another name",
        )
    return name


def validate_cluster_name(name: str) -> str:
    """Return the cluster's name if AWS and terradask accept it.

    Raises
    ------
    InvalidInput
        With the rule and whose it is.
    """
    if name == NETWORK_STACK:
        raise InvalidInput(
            "no cluster can be named network",
            given=name,
            allowed="any other name: network is the stack that all clusters of a workspace share",
            advice="choose another name",
        )
    if not re.fullmatch(CLUSTER_PATTERN, name):
        raise InvalidInput(
            "the cluster's name can't be used",
            given=name,
            allowed="a lower-case letter, then up to 31 lower-case letters, digits and hyphens: "
            "the name becomes part of "
            "object keys, a secret's name and tag values, and of group names that AWS limits",
            advice="choose another name",
        )
    return name
