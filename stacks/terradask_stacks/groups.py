"""Which groups of workers a cluster has, and which Auto Scaling groups: its scheduler's, and one
for each market of each. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from terradask_modules.errors import InvalidInput
from terradask_modules.markets import MARKETS_OF_POLICY, Market, SpotPolicy
from terradask_modules.names import SCHEDULER_GROUP, WORKER_GROUP, market_group
from terradask_modules.reservations import NONE, is_targeted
from terradask_stacks.lock import ClusterLock
from terradask_stacks.settings import ClusterSettings


@dataclass(frozen=True, kw_only=True)
class WorkerGroup:
    """One group of workers: the unit that users scale, with one or more Auto Scaling groups."""

    #: ``workers``, or the name that it has in the settings.
    name: str
    #: Most hosts that it may ever have.
    max_workers: int
    spot_policy: SpotPolicy
    #: Where its capacity is reserved, as of the settings.
    reservation: str | None = None
    #: Dask's resources of each of its workers.
    resources: Mapping[str, float] = field(default_factory=dict)
    #: Number of hosts on demand that are kept prepared beside it.
    standby: int = 0

    @property
    def markets(self) -> tuple[Market, ...]:
        """The markets for its hosts, in the order of requests."""
        return MARKETS_OF_POLICY[self.spot_policy]


@dataclass(frozen=True, kw_only=True)
class ClusterGroup:
    """One Auto Scaling group of a cluster."""

    #: The cluster's own name of it: the end of the Auto Scaling group's name, and the tag
    #: ``terradask:group``.
    key: str
    role: Literal["scheduler", "worker"]
    #: Most instances that it may ever have.
    max_size: int
    #: Types in order of preference.
    instance_types: tuple[str, ...]
    #: Where its hosts may be.
    zones: tuple[str, ...]
    market: Market = "on-demand"
    #: The group of workers whose hosts these are; None for the scheduler's.
    worker_group: str | None = None
    #: Dask's resources of each worker on its hosts.
    resources: Mapping[str, float] = field(default_factory=dict)
    #: The capacity reservation, or the resource group of some, that it launches into; ``open`` or
    #: ``none``. None: as EC2 does.
    reservation: str | None = None
    #: Whether that reservation is a capacity block.
    is_block: bool = False
    #: Number of prepared hosts beside it.
    standby: int = 0


def worker_groups_of(cluster: ClusterSettings) -> tuple[WorkerGroup, ...]:
    """Return a cluster's groups of workers: first the default one, then the named ones, by name."""
    always = WorkerGroup(
        name=WORKER_GROUP,
        max_workers=cluster.max_workers,
        spot_policy=cluster.spot_policy,
        reservation=cluster.capacity_reservation,
        standby=cluster.standby,
    )
    named = [
        WorkerGroup(
            name=name,
            max_workers=group.max_workers,
            spot_policy=group.spot_policy or cluster.spot_policy,
            resources=group.resources,
            reservation=group.capacity_reservation,
            standby=group.standby,
        )
        for name, group in sorted(cluster.worker_groups.items())
    ]
    return (always, *named)


def standby_of(cluster: ClusterSettings) -> dict[str, int]:
    """Return the number of prepared hosts of each group of workers that has any."""
    return {group.name: group.standby for group in worker_groups_of(cluster) if group.standby}


def scheduler_reservation(cluster: ClusterSettings) -> str | None:
    """Return the scheduler's reservation: none if workers name theirs, so that it takes none of
    what is counted for them.
    """
    reservations = {group.reservation for group in worker_groups_of(cluster)}
    return NONE if NONE in reservations or any(map(is_targeted, reservations)) else None


def groups_of(cluster: ClusterSettings, lock: ClusterLock) -> tuple[ClusterGroup, ...]:
    """Return the Auto Scaling groups of a cluster, the scheduler's first.

    Raises `InvalidInput` if they lack the types of a group, or for prepared hosts of a capacity
    block.
    """
    for group in worker_groups_of(cluster):
        if group.standby and group.name in lock.capacity_blocks:
            raise InvalidInput(
                f"hosts of a capacity block can't be kept prepared: {group.name}",
                given=f"standby = {group.standby}",
                advice="leave standby out for this group",
            )
    scheduler = ClusterGroup(
        key=SCHEDULER_GROUP,
        role="scheduler",
        max_size=1,
        instance_types=tuple(lock.scheduler_instance_types),
        zones=(lock.zone,),
        reservation=scheduler_reservation(cluster),
    )
    workers = [
        ClusterGroup(
            key=market_group(group.name, market),
            role="worker",
            # Either market may have to provide all of them.
            max_size=group.max_workers,
            instance_types=_types(lock, group.name),
            zones=tuple(lock.worker_zones.get(group.name, [lock.zone])),
            market=market,
            worker_group=group.name,
            resources=group.resources,
            reservation=group.reservation,
            is_block=group.name in lock.capacity_blocks,
            standby=group.standby if market == "on-demand" else 0,
        )
        for group in worker_groups_of(cluster)
        for market in group.markets
    ]
    return (scheduler, *workers)


def _types(lock: ClusterLock, group: str) -> tuple[str, ...]:
    if group == WORKER_GROUP:
        return tuple(lock.worker_instance_types)
    if group not in lock.group_instance_types:
        raise InvalidInput(
            "the locked answers lack the instance types of a group of workers",
            given=group,
            allowed=", ".join(sorted(lock.group_instance_types)) or None,
            advice="terradask plan NAME finds and writes them",
        )
    return tuple(lock.group_instance_types[group])
