"""A cluster placement group: hosts close to each other in one zone, for less latency and more
throughput between them.
"""

from __future__ import annotations

from terradask_modules.aws import Construct, PlacementGroup, at
from terradask_modules.kinds.placement_group import ADDRESS, placement_group_name
from terradask_modules.where import Where


class ClusterPlacement(Construct):
    """Where a cluster's hosts are placed together.

    Resources created: a placement group. It costs nothing
    (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-groups.html).

    Parameters
    ----------
    where
        The cluster.
    """

    def __init__(self, scope: Construct, *, where: Where) -> None:
        super().__init__(scope, "placement")
        # Only the tags by which terradask finds it, which never change: no caller needs a right to
        # change them.
        group = PlacementGroup(
            self,
            "group",
            name=placement_group_name(where),
            strategy="cluster",
            tags=where.tags,
        )
        at(ADDRESS, group)
        #: Its name, as a reference: instances in it are made after it, and gone before it.
        self.name = group.name
