"""Which Auto Scaling groups a cluster has: its scheduler's, and one for each market of its workers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from terradask_modules.names import SCHEDULER_GROUP, WORKER_GROUP, market_group
from terradask_stacks.lock import ClusterLock
from terradask_stacks.settings import ClusterSettings

Market = Literal["on-demand", "spot"]

#: Markets by `spot_policy`, in the order in which AWS is asked.
MARKETS_OF_POLICY: Mapping[str, tuple[Market, ...]] = {
    "on-demand": ("on-demand",),
    "spot": ("spot",),
    "spot_with_fallback": ("spot", "on-demand"),
}


@dataclass(frozen=True, kw_only=True)
class ClusterGroup:
    """One group of a cluster.

    Parameters
    ----------
    key
        The cluster's own name of it: the end of the Auto Scaling group's name, and the tag ``terradask:group``.
    role
        ``scheduler`` or ``worker``.
    max_size
        Most instances that it may ever have.
    instance_types
        Types in order of preference.
    market
        Where AWS takes its instances from.
    """

    key: str
    role: Literal["scheduler", "worker"]
    max_size: int
    instance_types: tuple[str, ...]
    market: Market = "on-demand"


def groups_of(cluster: ClusterSettings, lock: ClusterLock) -> tuple[ClusterGroup, ...]:
    """Return the groups of a cluster, the scheduler's first.

    Parameters
    ----------
    cluster
        The cluster's settings.
    lock
        Its locked answers.
    """
    scheduler = ClusterGroup(key=SCHEDULER_GROUP, role="scheduler", max_size=1, instance_types=tuple(lock.scheduler_instance_types))
    workers = [
        ClusterGroup(
            key=market_group(WORKER_GROUP, market),
            role="worker",
            # Either may have to hold them all.
            max_size=cluster.max_workers,
            instance_types=tuple(lock.worker_instance_types),
            market=market,
        )
        for market in MARKETS_OF_POLICY[cluster.spot_policy]
    ]
    return (scheduler, *workers)
