"""What a cluster launches at its start and may launch: as planned, or as deployed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from terradask._quotas.launch_needs import Hosts, Launch, Source
from terradask_modules.names import SCHEDULER_GROUP, WORKER_GROUP
from terradask_stacks.numbers import DEFAULT_WORKERS, first_of

if TYPE_CHECKING:
    from terradask._deployments.documents import Descriptor
    from terradask_stacks.lock import ClusterLock
    from terradask_stacks.settings import ClusterSettings


def planned_launch(name: str, cluster: ClusterSettings, lock: ClusterLock) -> Launch:
    """Return what a planned cluster starts with."""
    from terradask_stacks.groups import groups_of, worker_groups_of

    most = {group.name: group.max_workers for group in worker_groups_of(cluster)}
    unnamed = (
        min(DEFAULT_WORKERS, cluster.max_workers)
        if (first := first_of(cluster.n_workers)) is None
        else first
    )
    start = {
        WORKER_GROUP: unnamed,
        **{each: group.n_workers for each, group in cluster.worker_groups.items()},
    }
    sources = _by_group(
        (group.worker_group or SCHEDULER_GROUP, Source(group.market, group.instance_types))
        for group in groups_of(cluster, lock)
    )
    return _launch(name, sources, start, most)


def deployed_launch(descriptor: Descriptor, numbers: Mapping[str, int]) -> Launch:
    """Return what a deployed cluster starts with, or is scaled to."""
    pools = descriptor.pools
    most = {group: descriptor.most_workers(group) for group in descriptor.worker_groups}
    keys = {SCHEDULER_GROUP: [SCHEDULER_GROUP], **descriptor.worker_groups}
    sources = _by_group(
        (group, Source(pools[key].market, pools[key].instance_types))
        for group, found in keys.items()
        for key in found
    )
    return _launch(descriptor.cluster, sources, numbers, most)


def _by_group(found: Iterable[tuple[str, Source]]) -> dict[str, tuple[Source, ...]]:
    sources: dict[str, tuple[Source, ...]] = {}
    for group, source in found:
        sources[group] = (*sources.get(group, ()), source)
    return sources


def _launch(
    name: str,
    sources: Mapping[str, tuple[Source, ...]],
    start: Mapping[str, int],
    most: Mapping[str, int],
) -> Launch:
    def hosts(numbers: Mapping[str, int]) -> tuple[Hosts, ...]:
        numbers = {**numbers, SCHEDULER_GROUP: 1}
        return tuple(
            Hosts(group, numbers.get(group, 0), of_group) for group, of_group in sources.items()
        )

    return Launch(name, hosts(start), hosts(most))
