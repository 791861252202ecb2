"""Track missing instances and AWS's reasons, which are read only if instances are missing; request
a run's first instances again while AWS has no capacity.
"""

from __future__ import annotations

import datetime
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from terradask._aws.autoscaling import Groups
from terradask._aws.translation import is_transient
from terradask._common.once import OncePerCause
from terradask._observe.documents import Descriptor
from terradask._observe.record import ClusterRecord
from terradask._observe.shortfall import Shortfall, no_capacity
from terradask.errors import NoCapacity
from terradask_host.documents import Run
from terradask_host.rules.autoscaling_groups import Group
from terradask_host.rules.launch_problem import CapacityMemory, LaunchProblem
from terradask_host.rules.markets import PendingGroups
from terradask_modules.names import SCHEDULER_GROUP

logger = logging.getLogger("terradask")

#: A shortfall is reported only after this time without a new instance.
_SETTLED_SECONDS = 5.0

#: Kinds of problems that may end by themselves: others may leave a zone, or a reservation.
_PASSING = frozenset({"capacity", "reservation"})

#: A group without instances is requested again after this time: Auto Scaling's own pauses between
#: two launches grow.
#: AWS (believed, asg-new-number): Auto Scaling launches at once for a new number, also after failed
#: launches.
REPEAT_SECONDS = 30.0

#: Receives AWS's refusal, and for how many more seconds the instances are requested.
OnRefusal = Callable[[NoCapacity, float], None]


def ignore_refusal(refusal: NoCapacity, left_seconds: float) -> None:
    """Report nothing."""


def may_pass(refusal: NoCapacity) -> bool:
    """Return whether AWS may launch later what it refuses now."""
    return bool(refusal.kinds) and refusal.kinds <= _PASSING


@dataclass(frozen=True)
class CapacityWait:
    """How to wait for a run's first instances while AWS has no capacity.

    Parameters
    ----------
    timeout_seconds
        How long to go on requesting instances after AWS's first refusal. By default the first
        refusal is an error.
    needs_workers
        Whether to wait also for the first worker's instance, if workers are requested: without any
        worker, the run is of no use.
    on_refusal
        Called with AWS's first refusal and with each that has another reason, and with the seconds
        that are left.
    """

    timeout_seconds: float = 0.0
    needs_workers: bool = False
    on_refusal: OnRefusal = ignore_refusal


@dataclass(eq=False, repr=False)
class Refusals:
    """AWS's refusals of all instances of a role, for as long as a wait for capacity allows."""

    cluster: str
    descriptor: Descriptor
    wait: CapacityWait
    #: When AWS first refused, on the monotonic clock.
    began_at: float | None = field(default=None, init=False)
    _reported: OncePerCause = field(default_factory=OncePerCause, init=False)

    def take(self, short: Shortfall, *, role: str = "worker", is_last: bool = False) -> None:
        """Take AWS's reasons, and report new ones.

        Raises `NoCapacity` if the time is over, or if waiting is useless.
        """
        refusal = no_capacity(self.cluster, short, self.descriptor.pools, role=role)
        now = time.monotonic()
        self.began_at = now if self.began_at is None else self.began_at
        left_seconds = self.began_at + self.wait.timeout_seconds - now
        # AWS (asg-retries)
        if is_last or left_seconds <= 0 or not may_pass(refusal):
            raise refusal
        if self._reported.is_new(*short.causes):
            self.wait.on_refusal(refusal, left_seconds)


@dataclass(eq=False, repr=False)
class FirstLaunches:
    """The first launches of a run, for its scheduler and its workers, which may be refused at first
    and succeed later.
    """

    record: ClusterRecord
    run: Run
    wait: CapacityWait = CapacityWait()
    _refusals: Refusals = field(init=False)
    _requested_at: float = field(default_factory=time.monotonic, init=False)
    #: Earlier refusals don't count.
    _since: datetime.datetime = field(init=False)

    def __post_init__(self) -> None:
        self._refusals = Refusals(self.record.name, self.record.descriptor, self.wait)
        self._since = datetime.datetime.fromisoformat(self.run.started_at)

    @property
    def refused(self) -> bool:
        """Whether AWS has refused any of them."""
        return self._refusals.began_at is not None

    def check(self, groups: Mapping[str, Group], *, is_last: bool = False) -> None:
        """Check groups that have no instance, and request those again that AWS refuses.

        Raises `NoCapacity` if the time for that is over, or if asking again is useless.
        """
        found = self._shortfall(groups)
        if found is None:
            return
        role, short = found
        self._refusals.take(short, role=role, is_last=is_last)
        if time.monotonic() >= self._requested_at + REPEAT_SECONDS:
            self._request_again(groups, short.problems.keys() - self._fallbacks(groups))

    def has_workers(self, groups: Mapping[str, Group]) -> bool:
        """Return whether any worker's instance exists, or none is needed or requested."""
        chains = self._requested_chains(groups)
        return (
            not self.wait.needs_workers
            or not chains
            or any(group.active_ids for chain in chains for group in chain)
        )

    def _shortfall(self, groups: Mapping[str, Group]) -> tuple[str, Shortfall] | None:
        """Return the role without a host, and the reasons."""
        scheduler = groups.get(SCHEDULER_GROUP)
        empty = []
        if scheduler is None or not scheduler.active_ids:
            empty.append(("scheduler", [SCHEDULER_GROUP]))
        if not self.has_workers(groups):
            # The scheduler's host moves missing hosts to the last group of a chain.
            names = [chain[-1].name for chain in self._requested_chains(groups)]
            empty.append(("worker", names))
        for role, names in empty:
            if (short := self._shortfall_of(names, groups)) is not None:
                return role, short
        return None

    def _shortfall_of(self, names: Sequence[str], groups: Mapping[str, Group]) -> Shortfall | None:
        """Return why none of these groups has a host; None while AWS may still launch one."""
        problems = {}
        for name in names:
            problems[name] = self._problems(name)
            if not Shortfall(1, 0, {name: problems[name]}).certain:
                return None
        # An instance may have come since the groups were read.
        with self.record.limiter.slot():
            described = self.record.groups.describe()
        if any(described[name].active_ids for name in names if name in described):
            return None
        wanted = sum(groups[name].desired for name in names if name in groups)
        return Shortfall(wanted or 1, 0, problems)

    def _requested_chains(self, groups: Mapping[str, Group]) -> list[list[Group]]:
        """Return the groups of workers with a number, each with those that it falls back to."""
        chains = self.record.descriptor.worker_groups.values()
        found = [[groups[name] for name in chain if name in groups] for chain in chains]
        return [chain for chain in found if sum(group.desired for group in chain)]

    def _fallbacks(self, groups: Mapping[str, Group]) -> set[str]:
        """Return the groups whose numbers the scheduler's host sets."""
        return {chain[-1].name for chain in self._requested_chains(groups) if len(chain) > 1}

    def _problems(self, group: str) -> tuple[LaunchProblem, ...]:
        try:
            with self.record.limiter.slot():
                failures = self.record.groups.failures(group)
        except Exception:
            # As in `PendingLaunches.read_failures`: the wait then ends without a reason.
            logger.debug("can't read the scaling activities of %s", group, exc_info=True)
            return ()
        return tuple(dict.fromkeys(problem for at, problem in failures if at >= self._since))

    def _request_again(self, groups: Mapping[str, Group], names: Collection[str]) -> None:
        self._requested_at = time.monotonic()
        self._since = datetime.datetime.now(datetime.UTC)
        for name in names:
            n = groups[name].desired if name in groups else 0
            if not n:
                continue
            try:
                with self.record.limiter.slot():
                    self.record.groups.set_desired(name, 0)
            finally:
                # An interruption leaves the number as it was.
                with self.record.limiter.slot():
                    self.record.groups.set_desired(name, n)


@dataclass(eq=False, repr=False)
class PendingLaunches:
    """Instances of the groups of workers that AWS has not launched yet."""

    groups: Groups
    call: Callable[..., Awaitable[Any]]
    _: KW_ONLY
    started_at: datetime.datetime
    #: The current capacity shortfall; None while AWS reports no reason.
    shortfall: Shortfall | None = field(default=None, init=False)
    _pending_groups: PendingGroups = field(default_factory=PendingGroups, init=False)
    _memory: CapacityMemory = field(default_factory=CapacityMemory, init=False)
    _may_read: bool = field(default=True, init=False)

    @property
    def pending(self) -> bool:
        """Whether any instance is missing."""
        return bool(self._pending_groups.names)

    @property
    def must_read_failures(self) -> bool:
        """Whether to read the reasons of missing instances."""
        return self.pending and self._may_read

    def update(self, chains: Collection[Sequence[Group]]) -> None:
        """Update the groups with missing instances."""
        self._pending_groups.update(itertools.chain(*chains), time.monotonic())
        self.shortfall = self._shortfall(chains)

    async def read_failures(self) -> None:
        """Read the reasons of one group, the one that was read the longest time ago."""
        name = self._pending_groups.next_to_ask()
        try:
            failures = await self.call(self.groups.failures, name)
        except Exception as error:
            # The caller's policy may not allow this call: then there are no reasons.
            logger.debug("can't read the scaling activities of %s", name, exc_info=True)
            self._may_read = is_transient(error)
            return
        now, here = time.monotonic(), datetime.datetime.now(datetime.UTC)
        for at, problem in failures:
            if at >= self.started_at:
                self._memory.note(name, problem, now - (here - at).total_seconds())

    def _shortfall(self, chains: Collection[Sequence[Group]]) -> Shortfall | None:
        now = time.monotonic()
        late = self._pending_groups.late(now, _SETTLED_SECONDS)
        # After the last group of a chain there is no other to try.
        short = [
            chain
            for chain in chains
            if chain[-1].name in late and self._memory.problems(chain[-1].name, now)
        ]
        if not short:
            return None
        return Shortfall(
            wanted=sum(group.desired for chain in chains for group in chain),
            there=sum(
                len(group.active_ids) if chain in short else group.desired
                for chain in chains
                for group in chain
            ),
            problems={
                group.name: found
                for chain in short
                for group in chain
                if (found := self._memory.problems(group.name, now))
            },
        )
