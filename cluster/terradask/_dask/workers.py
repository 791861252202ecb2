"""The workers of an attached cluster, mirrored from its Auto Scaling groups: AWS has the numbers,
and the scheduler's host sets them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from terradask._aws.autoscaling import Groups
from terradask._aws.rate_limit import RateLimiter
from terradask._dask.scaling import planned_names
from terradask._deployments.pending_launches import PendingLaunches
from terradask.errors import ClusterError
from terradask_host.rules.autoscaling_groups import Group
from terradask_modules.names import SCHEDULER_GROUP

#: What one call to AWS returned, by the cluster's own names of its Auto Scaling groups.
Described = Mapping[str, Group]


@dataclass(frozen=True)
class WorkerSet:
    """The workers of one group, of all markets, as AWS showed them last."""

    name: str
    chain: tuple[Group, ...] = ()

    @property
    def members(self) -> tuple[str, ...]:
        """Instance ids of the group's members."""
        return tuple(one for group in self.chain for one in group.active_ids)

    @property
    def desired(self) -> int:
        """The desired number of hosts."""
        return sum(group.desired for group in self.chain)

    def plan(self, at_least: int = 0) -> frozenset[str]:
        """Return the names of the workers that should exist."""
        return frozenset(planned_names(self.name, self.members, max(self.desired, at_least)))


@dataclass(eq=False, repr=False)
class Workers:
    """The workers of one cluster, as known to this client."""

    groups: Groups
    worker_groups: Mapping[str, Sequence[str]]
    pending_launches: PendingLaunches
    call: Callable[..., Awaitable[Any]]
    _: KW_ONLY
    limiter: RateLimiter
    sets: dict[str, WorkerSet] = field(init=False)
    #: What AWS returned last.
    described: Described = field(default_factory=dict, init=False)
    #: Whether the scheduler's group is at zero: the run is over.
    run_is_over: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.sets = {name: WorkerSet(name) for name in self.worker_groups}

    @property
    def members(self) -> set[str]:
        """Instance ids of all groups' members."""
        return {instance_id for each in self.sets.values() for instance_id in each.members}

    async def mirror(self, described: Described | None = None) -> None:
        """Set the plan to the groups' current state, whatever has changed it."""
        if described is None:
            # For a caller that waits for it: without a slot.
            self.limiter.note()
            described = await self.call(self.groups.describe)
        self._note(described)

    async def watch(self) -> None:
        """As `mirror`, in the caller's slot; also note which launches are pending."""
        self._note(await self.call(self.groups.describe))
        self.pending_launches.update([each.chain for each in self.sets.values()])

    async def allow_fewer(self, groups: Sequence[str]) -> None:
        """Take minimums of groups back that were raised beside terradask: the scheduler's host may
        not, and AWS ends no host below them.
        """
        for name in groups:
            for group in self.sets[name].chain:
                if group.min_size:
                    await self.call(self.groups.clear_minimum, group.name)

    def _note(self, described: Described) -> None:
        gone = sorted(
            name for names in self.worker_groups.values() for name in names if name not in described
        )
        if gone:
            raise ClusterError(
                "Groups of the cluster are gone: it was destroyed, or deployed with other groups.",
                given=", ".join(gone),
                advice=(
                    "attach to the cluster again, or deploy it again; `terradask list` shows "
                    "the existing ones"
                ),
            )
        self.described = described
        self.run_is_over = SCHEDULER_GROUP in described and not described[SCHEDULER_GROUP].desired
        self.sets = {
            name: WorkerSet(name, tuple(described[each] for each in names))
            for name, names in self.worker_groups.items()
        }
