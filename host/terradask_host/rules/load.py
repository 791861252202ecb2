"""A scheduler's load, by host and by waiting tasks, and each group's part of it. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

#: Dask's share of used memory from which on a group is doubled.
CROWDED = 0.6

Resources = Mapping[str, float]


@dataclass(frozen=True)
class HostLoad:
    """The load of one host's workers together."""

    host: str
    threads: int
    #: Total duration of its tasks, by Dask's estimates.
    occupancy_seconds: float
    #: Tasks that run there or are assigned to it.
    processing: int
    memory_bytes: int
    memory_limit_bytes: int
    #: Dask's resources of each worker.
    resources: Resources = field(default_factory=dict)


@dataclass(frozen=True)
class Waiting:
    """Tasks without a worker that need the same resources."""

    resources: Resources
    count: int
    #: Their total duration.
    seconds: float


@dataclass(frozen=True)
class Load:
    """A scheduler's load.

    Parameters
    ----------
    hosts
        Joined hosts, the cheapest to lose first.
    idle_count
        Number of the first hosts that are idle: Dask's `workers_to_close`.
    kept_count
        Number of the last hosts that must stay: their tasks wait for their own tasks.
    waiting
        Tasks without a worker.
    is_early
        Whether it comes within an interval, because tasks began to wait.
    """

    hosts: tuple[HostLoad, ...] = ()
    idle_count: int = 0
    kept_count: int = 0
    waiting: tuple[Waiting, ...] = ()
    is_early: bool = False

    @classmethod
    def read(cls, facts: Mapping[str, Any]) -> Self:
        """Read the scheduler process's message."""
        return cls(
            tuple(HostLoad(*row) for row in facts["hosts"]),
            facts["idle_count"],
            facts["kept_count"],
            tuple(Waiting(*row) for row in facts["waiting"]),
            facts.get("is_early", False),
        )

    @property
    def joined(self) -> frozenset[str]:
        """The hosts that have joined."""
        return frozenset(each.host for each in self.hosts)

    @property
    def closable(self) -> tuple[str, ...]:
        """The hosts that may be closed, the cheapest first; the idle ones come before the busy."""
        names = [each.host for each in self.hosts]
        return tuple(names[: len(names) - self.kept_count])

    @property
    def idle(self) -> tuple[str, ...]:
        """The idle hosts that may be closed, the cheapest first."""
        return tuple(each.host for each in self.hosts[: self.idle_count])


@dataclass(frozen=True)
class GroupLoad:
    """A group's part: its own hosts, and the tasks that wait for it."""

    hosts: int = 0
    threads: int = 0
    occupancy_seconds: float = 0.0
    processing: int = 0
    memory_bytes: int = 0
    memory_limit_bytes: int = 0
    waiting_count: int = 0
    waiting_seconds: float = 0.0

    @classmethod
    def of(cls, hosts: Iterable[HostLoad]) -> Self:
        """Return the load of hosts."""
        each = list(hosts)
        return cls(
            hosts=len(each),
            threads=sum(one.threads for one in each),
            occupancy_seconds=sum(one.occupancy_seconds for one in each),
            processing=sum(one.processing for one in each),
            memory_bytes=sum(one.memory_bytes for one in each),
            memory_limit_bytes=sum(one.memory_limit_bytes for one in each),
        )

    def wanted(self, target_duration_seconds: float, threads_each: float | None) -> int:
        """Return how many hosts the work needs: Dask's `adaptive_target`, in hosts of a group.

        `threads_each` is the observed number of threads of the group's hosts, or None.
        """
        seconds = self.occupancy_seconds + self.waiting_seconds
        # Few long tasks need no more threads than there are tasks.
        threads = min(
            math.ceil(seconds / target_duration_seconds), self.waiting_count + self.processing
        )
        each = self.threads / self.hosts if self.threads else threads_each
        hosts = math.ceil(threads / each) if each else threads
        if self.waiting_count and not self.hosts:
            hosts = max(hosts, 1)
        if self.memory_bytes > CROWDED * self.memory_limit_bytes > 0:
            hosts = max(hosts, 2 * self.hosts)
        return hosts


def split(
    load: Load,
    groups: Mapping[str, Collection[str]],
    offers: Mapping[str, Sequence[Resources]],
    target_durations: Mapping[str, float],
) -> dict[str, GroupLoad]:
    """Return the load of each group that adapts.

    `groups` has the hosts of all groups, `offers` the resources of each group's workers.
    `target_durations` has the adapting groups: waiting tasks count for the first of them whose
    workers offer their resources.
    """
    by_group = {
        name: GroupLoad.of(one for one in load.hosts if one.host in members)
        for name, members in groups.items()
    }
    found = {name: by_group.get(name, GroupLoad()) for name in target_durations}
    for each in load.waiting:
        name = next((g for g in found if serves(offers.get(g, ()), each.resources)), None)
        if name is not None:
            left = each if each.resources else _left(each, by_group, name, target_durations[name])
            found[name] = replace(
                found[name],
                waiting_count=found[name].waiting_count + left.count,
                waiting_seconds=found[name].waiting_seconds + left.seconds,
            )
    return found


def serves(offered: Sequence[Resources], asked: Resources) -> bool:
    """Return whether workers with any of these resources could run a task that needs `asked`."""
    return not asked or any(
        all(one.get(name, 0) >= amount for name, amount in asked.items()) for one in offered
    )


def _left(
    waiting: Waiting, by_group: Mapping[str, GroupLoad], group: str, duration_seconds: float
) -> Waiting:
    """Return a group's rest of tasks that run anywhere, after the other groups' existing hosts took
    their share within the target duration.
    """
    spare_seconds = sum(
        max(other.threads * duration_seconds - other.occupancy_seconds, 0.0)
        for name, other in by_group.items()
        if name != group
    )
    if spare_seconds <= 0:
        return waiting
    # Tasks without a measured duration are done at once.
    share = 1 - min(spare_seconds / waiting.seconds, 1.0) if waiting.seconds > 0 else 0.0
    return replace(waiting, count=math.ceil(waiting.count * share), seconds=waiting.seconds * share)
