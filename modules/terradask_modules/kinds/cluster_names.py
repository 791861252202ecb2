"""What the names of a cluster's resources follow from. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from terradask_modules.where import ClusterWhere


@dataclass(frozen=True, kw_only=True)
class ClusterNames:
    """What the names of a cluster's resources follow from."""

    where: ClusterWhere
    #: `role_path`, `role_name_prefix`: Where the cluster's own roles lie; None where it has none,
    #: because hosts share the workspace's.
    role_path: str | None = None
    role_name_prefix: str = ""

    def role(self, role: str) -> str:
        """Return the name of a role of the cluster's own."""
        return self.where.role_name(role, self.role_name_prefix)


#: Takes a cluster and a resource's name in its stack: what follows the type in the address. Returns
#: the patterns that the resource's attributes match whole; None if the stack makes none of this
#: name.
Shape = Callable[[ClusterNames, str], Mapping[str, str] | None]


def exactly(**attributes: str) -> dict[str, str]:
    """Return the patterns that these values alone match."""
    return {name: re.escape(value) for name, value in attributes.items()}
