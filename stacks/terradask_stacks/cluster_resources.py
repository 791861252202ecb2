"""What a cluster's stack makes: the addresses of its resources, and the names that follow from the
cluster's. Pure.

A test holds it against the stacks that are synthesised, in both directions.
"""

from __future__ import annotations

from collections.abc import Mapping

from terradask_modules.kinds import KINDS
from terradask_modules.kinds.cluster_names import ClusterNames

#: The data that the stack reads, by type and name.
DATA = {"aws_s3_object": "baseline"}


def expected(names: ClusterNames, kind: str, address: str) -> Mapping[str, str] | None:
    """Return the patterns that a resource's attributes match whole; None if the stack makes no
    resource of Terraform's type `kind` and this name in the stack, which follows it in the address.
    """
    known = KINDS.get(kind)
    if known is None or known.shape is None:
        return None
    if known.clusters == "isolated" and names.role_path is None:
        return None
    return known.shape(names, address)


def kinds() -> frozenset[str]:
    """Return the types of resources that a cluster can have."""
    return frozenset(name for name, kind in KINDS.items() if kind.shape is not None)
