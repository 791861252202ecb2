"""Track missing instances and AWS's reasons; the reasons are read only if instances are missing."""

from __future__ import annotations

import datetime
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from terradask._aws.autoscaling import Groups
from terradask._aws.translation import is_transient
from terradask._observe.record import ClusterRecord
from terradask._observe.shortfall import Shortfall, no_capacity
from terradask_host.documents import Run
from terradask_host.rules.autoscaling_groups import Group
from terradask_host.rules.launch_problem import CapacityMemory
from terradask_host.rules.markets import PendingGroups
from terradask_modules.names import SCHEDULER_GROUP

logger = logging.getLogger("terradask")

#: A shortfall is reported only after this time without a new instance.
_SETTLED_SECONDS = 5.0


def check_scheduler_launches(record: ClusterRecord, run: Run) -> None:
    """Raise `NoCapacity` if AWS launches no host for a run's scheduler and reports a reason."""
    groups, descriptor = record.groups, record.descriptor
    try:
        with record.limiter.slot():
            failures = groups.failures(SCHEDULER_GROUP)
    except Exception:
        # As in `PendingLaunches.read_failures`: the wait then ends without a reason.
        logger.debug("can't read the scaling activities of %s", SCHEDULER_GROUP, exc_info=True)
        return
    since = datetime.datetime.fromisoformat(run.started_at)
    problems = tuple(dict.fromkeys(problem for at, problem in failures if at >= since))
    shortfall = Shortfall(1, 0, {SCHEDULER_GROUP: problems})
    if not shortfall.certain:
        return
    with record.limiter.slot():
        described = groups.describe()
    if not described[SCHEDULER_GROUP].active_ids:
        raise no_capacity(descriptor.cluster, shortfall, descriptor.pools, role="scheduler")


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
