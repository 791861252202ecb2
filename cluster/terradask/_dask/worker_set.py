"""The workers of one group, of all its markets: what AWS has of them, and what is planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from terradask._dask.scaling import Roster
from terradask_host.rules.autoscaling_groups import Group
from terradask_modules.names import WORKER_GROUP

#: What one call to AWS returned, by the cluster's own names of its Auto Scaling groups.
Described = Mapping[str, Group]


class WorkerSet:
    """The workers of one group, of all markets, as known to this client."""

    def __init__(self, name: str, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self.roster = Roster(label="" if name == WORKER_GROUP else name)
        self.members: tuple[str, ...] = ()

    def chain(self, described: Described) -> list[Group]:
        """Return the Auto Scaling groups, in the order in which they are tried."""
        return [described[name] for name in self._names]

    def desired(self, described: Described) -> int:
        """Return the desired number of hosts."""
        return sum(group.desired for group in self.chain(described))

    def update_members(self, described: Described) -> None:
        """Update the members, but not the plan."""
        self.members = tuple(
            instance_id for group in self.chain(described) for instance_id in group.active_ids
        )

    def mirror(self, described: Described) -> None:
        """Set the plan to the groups' members and desired numbers."""
        self.roster.mirror(self.members, self.desired(described))

    def mirror_members(self, described: Described) -> None:
        """As `mirror`, where AWS may not have followed what it was sent."""
        self.roster.mirror(
            self.members,
            sum(max(group.desired, len(group.active_ids)) for group in self.chain(described)),
        )
