"""The workers of an attached cluster: the plan, the groups and the scheduler brought together.

What to do is decided in `_scaling`; here it is done, in the order that loses no result: retire at the scheduler first, then end the host.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from terradask._runtime.delivery import Delivery
from terradask._runtime.groups import Groups
from terradask._runtime.host_workers import host_of, hosts_to_close, idle_hosts
from terradask._runtime.markets import dearest_first, grown, moved_on, without_missing
from terradask._runtime.scaling import Group, Roster, cheapest_victims, removal
from terradask.errors import ClusterError

logger = logging.getLogger("terradask")

#: AWS counts calls of an account, not of a cluster.
_SECONDS_A_CALL = 0.5


class Workers:
    """The workers of one cluster, as this client sees them: one set, whatever groups their hosts are in.

    Parameters
    ----------
    groups
        The cluster's groups at AWS.
    names
        Which of them have workers, in the order in which AWS is asked for instances.
    delivery
        What AWS owes these groups.
    call
        Runs a blocking function in a thread and awaits it.
    workers_per_host
        How many Dask workers a host has.
    """

    def __init__(
        self,
        groups: Groups,
        names: Sequence[str],
        delivery: Delivery,
        call: Callable[..., Awaitable[Any]],
        workers_per_host: int = 1,
    ) -> None:
        self._groups = groups
        self._names = tuple(names)
        self._workers_per_host = workers_per_host
        self._call = call
        self.delivery = delivery
        self.roster = Roster()
        self.members: tuple[str, ...] = ()

    async def mirror(self) -> None:
        """Make the plan what the groups say, whoever changed them: their own healing, another client, a host that left."""
        self._mirror(await self._read())

    async def watch(self) -> None:
        """As `mirror`; and look after what AWS owes: why, and whether another group delivers it."""
        groups = await self._read()
        await self.delivery.look(groups)
        lowered, raised = moved_on(groups, self.delivery.stuck)
        if raised:
            logger.info("no instances in %s; they are asked for in %s", ", ".join(lowered), ", ".join(raised))
            # Cut off in between, too few run, and not too many.
            await self._set(lowered)
            await self._set(raised)
            groups = await self._read()
        self._mirror(groups)

    async def resize(self, n: int, scheduler: Any, joined: Iterable[str]) -> None:
        """Bring the groups to `n` instances together.

        Parameters
        ----------
        n
            How many.
        scheduler
            RPC to the Dask scheduler, which says whom to move cheaply and moves what they hold.
        joined
            Names of the Dask workers that the scheduler knows.
        """
        groups = await self._read()
        self._mirror(groups)
        if n >= len(self.roster):
            await self._set(grown(groups, n, avoided=self.delivery.exhausted))
            self.roster.grow_to(n)
            await self._read_members_into_plan()
            return
        excess = len(self.roster) - n
        cancelled = self.roster.cancel_pending(excess)
        if cancelled:
            # AWS may end a booting host instead of a launch that has not happened: the groups are read again before anyone is chosen.
            await self._set(without_missing(groups, len(self.roster)))
            groups = await self._read()
            self.roster.mirror(_ids(groups), len(self.roster))
        excess = len(self.roster.instance_ids) - n
        if excess > 0:
            by_cost = await self._by_cost(scheduler, excess, groups)
            known = {host_of(name) for name in joined}
            victims = cheapest_victims(self.roster.instance_ids, excess, joined=known, by_cost=by_cost)
            await self.remove(victims, scheduler, joined)

    async def remove(self, victims: Iterable[str], scheduler: Any, joined: Iterable[str]) -> None:
        """End exactly these hosts, with what their workers hold moved first.

        Parameters
        ----------
        victims
            Instance ids, or pending names.
        scheduler
            RPC to the Dask scheduler.
        joined
            Names of the Dask workers that the scheduler knows.
        """
        chosen = set(victims)
        names = [name for name in joined if host_of(name) in chosen]
        if names:
            await scheduler.retire_workers(names=names, remove=True, close_workers=True)
        for group in await self._read():
            if not chosen.isdisjoint(group.active_ids):
                how = removal(group.active_ids, chosen, booting=group.booting_ids)
                await self._call(self._groups.remove, group.name, how)
        self.roster.drop(chosen)
        await self._read_members_into_plan()

    async def _set(self, numbers: Mapping[str, int]) -> None:
        for name, number in numbers.items():
            await self._call(self._groups.set_desired, name, number)

    async def _read(self) -> list[Group]:
        described = await self._call(self._groups.describe)
        if not described.keys() >= set(self._names):
            raise ClusterError(
                "The cluster's worker group is gone: somebody destroyed the cluster.",
                advice="make the cluster again; `terradask list` shows those there are",
            )
        groups: list[Group] = [described[name] for name in self._names]
        self.members = _ids(groups)
        return groups

    def _mirror(self, groups: Iterable[Group]) -> None:
        groups = list(groups)
        self.roster.mirror(_ids(groups), sum(group.desired for group in groups))

    async def _read_members_into_plan(self) -> None:
        groups = await self._read()
        self.roster.mirror(_ids(groups), sum(max(group.desired, len(group.active_ids)) for group in groups))

    async def _by_cost(self, scheduler: Any, n: int, groups: Sequence[Group]) -> list[str]:
        """Return the hosts that are cheapest to do without: by what has to be moved, and with nothing to move by their price."""
        mixed = sum(bool(group.active_ids) for group in groups) > 1
        hosts = await hosts_to_close(scheduler, self._workers_per_host, n=len(self.roster.instance_ids) if mixed else n)
        return dearest_first(hosts, await idle_hosts(scheduler), groups) if mixed else hosts


def _ids(groups: Iterable[Group]) -> tuple[str, ...]:
    return tuple(instance_id for group in groups for instance_id in group.active_ids)


class Pace:
    """How long to wait between looks at AWS: short while something is on its way, longer and longer otherwise.

    Two calls a second at most, whatever is on its way.
    """

    def __init__(self, shortest_seconds: float = 0.25, longest_seconds: float = 15.0) -> None:
        self._shortest = shortest_seconds
        self._longest = longest_seconds
        self._next = shortest_seconds
        self._wake = asyncio.Event()
        self._looked_at = -math.inf

    def hurry(self) -> None:
        """Look again soon, and often from then on."""
        self._wake.set()

    async def wait(self, *, calls: int = 1, longest_seconds: float | None = None) -> None:
        """Wait for the next look: at least the shortest time, however often somebody is in a hurry.

        Parameters
        ----------
        calls
            How many calls the last look took.
        longest_seconds
            Longest wait, where something is awaited.
        """
        longest = self._longest if longest_seconds is None else longest_seconds
        earliest = self._looked_at + calls * _SECONDS_A_CALL
        try:
            await asyncio.wait_for(self._wake.wait(), min(self._next, longest))
        except TimeoutError:
            self._next = min(self._next * 2, longest)
        else:
            self._wake.clear()
            self._next = self._shortest
            await asyncio.sleep(self._shortest)
        await asyncio.sleep(max(earliest - time.monotonic(), 0))
        self._looked_at = time.monotonic()
