"""Compute the hosts that a planned or deployed cluster launches, and check AWS's quotas while it is
scaled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from terradask._catalog.quotas.launch import Hosts, LaunchCheck
from terradask._catalog.reservations import ReservedHosts, check_reserved, reserved_hosts
from terradask._clusters.worker_counts import requested_numbers
from terradask_modules.names import SCHEDULER_GROUP
from terradask_modules.reservations import BLOCK, is_targeted

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask._observe.documents import Descriptor
    from terradask._observe.record import ClusterRecord
    from terradask_stacks.lock import ClusterLock
    from terradask_stacks.settings import ClusterSettings


def planned_launch(cluster: ClusterSettings, lock: ClusterLock) -> list[Hosts]:
    """Return the hosts at the start of a planned cluster."""
    from terradask_stacks.groups import groups_of, standby_of, worker_groups_of

    most = {group.name: group.max_workers for group in worker_groups_of(cluster)}
    start = requested_numbers(cluster, cluster.max_workers)
    pools = (
        (
            group.worker_group or SCHEDULER_GROUP,
            BLOCK if group.is_block else group.market,
            group.instance_types,
        )
        for group in groups_of(cluster, lock)
    )
    return _hosts(pools, start, most, standby_of(cluster))


def check_planned_reservations(
    aws: Aws,
    name: str,
    cluster: ClusterSettings,
    lock: ClusterLock,
    *,
    starts: bool,
    warn: Callable[[str], None],
) -> None:
    """Compare a planned cluster with its capacity reservations, as `check_reserved`."""
    from terradask_stacks.groups import groups_of

    numbers = requested_numbers(cluster, cluster.max_workers)
    hosts = reserved_hosts(groups_of(cluster, lock), numbers)
    check_reserved(aws, name, hosts, starts=starts, warn=warn)


def check_reservations_at_start(
    record: ClusterRecord, numbers: Mapping[str, int], warn: Callable[[str], None]
) -> None:
    """Compare a deployed cluster's start with its capacity reservations, as `check_reserved`."""
    from terradask_stacks.groups import worker_groups_of

    descriptor = record.descriptor
    hosts = [
        ReservedHosts(
            group.name,
            group.reservation,
            pool.instance_types,
            pool.zones,
            numbers.get(group.name, 0),
            # The plan has warned of a limit above what is reserved.
            0,
        )
        for group in worker_groups_of(descriptor.cluster_settings)
        if group.reservation is not None and is_targeted(group.reservation)
        for pool in (descriptor.pools[descriptor.worker_groups[group.name][0]],)
    ]
    # Hosts of a run that goes on are in the reservation already.
    if hosts and record.current_run() is None:
        check_reserved(record.aws, descriptor.cluster, hosts, starts=True, warn=warn)


def deployed_launch(descriptor: Descriptor, numbers: Mapping[str, int]) -> list[Hosts]:
    """Return the hosts of a deployed cluster for these numbers of workers."""
    from terradask_stacks.groups import standby_of

    most = {group: descriptor.most_workers(group) for group in descriptor.worker_groups}
    keys = {SCHEDULER_GROUP: [SCHEDULER_GROUP], **descriptor.worker_groups}
    found = ((group, descriptor.pools[key]) for group, names in keys.items() for key in names)
    blocks = descriptor.lock.get("capacity_blocks", ())
    pools = (
        (group, BLOCK if group in blocks else pool.market, pool.instance_types)
        for group, pool in found
    )
    return _hosts(pools, numbers, most, standby_of(descriptor.cluster_settings))


def _hosts(
    pools: Iterable[tuple[str, str, Iterable[str]]],
    start: Mapping[str, int],
    most: Mapping[str, int],
    standby: Mapping[str, int],
) -> list[Hosts]:
    choices: dict[str, tuple[tuple[str, str], ...]] = {}
    for group, market, types in pools:
        choices[group] = (*choices.get(group, ()), *((name, market) for name in types))
    start, most = ({**numbers, SCHEDULER_GROUP: 1} for numbers in (start, most))
    return [
        Hosts(group, start.get(group, 0), most.get(group, 0), group_choices, standby.get(group, 0))
        for group, group_choices in choices.items()
    ]


@dataclass
class ScaleCheck:
    """Warn in the background of numbers of workers above AWS's quotas, which are read once.

    Permissions needed: those of `LaunchCheck`; without them a single warning is logged.
    """

    aws: Aws
    descriptor: Descriptor
    warn: Callable[[str], None]
    #: Group -> its number of workers.
    considered: dict[str, int]
    _check: LaunchCheck | None = field(default=None, init=False)

    def consider(self, numbers: Mapping[str, int]) -> None:
        """Check new numbers in the background."""
        grown = any(number > self.considered.get(group, 0) for group, number in numbers.items())
        self.considered.update(numbers)
        if grown:
            own, hosts = self.descriptor, deployed_launch(self.descriptor, self.considered)
            if self._check is None:
                self._check = LaunchCheck(self.aws, own.cluster, hosts, workspace=own.workspace)
            self._check.warn_when_known(hosts, self.warn)
