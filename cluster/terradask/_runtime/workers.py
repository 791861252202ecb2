"""The workers of an attached cluster: the plan, the group and the scheduler brought together.

What to do is decided in `_scaling`; here it is done, in the order that loses no result: retire at the scheduler first, then end the host.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from terradask._runtime.groups import Groups
from terradask._runtime.scaling import Group, Roster, cheapest_victims, removal
from terradask.errors import ClusterError

logger = logging.getLogger("terradask")

T = TypeVar("T")

WORKERS = "workers"


class Workers:
    """The worker group of one cluster, as this client sees it.

    Parameters
    ----------
    groups
        The cluster's groups at AWS.
    call
        Runs a blocking function in a thread and awaits it.
    """

    def __init__(self, groups: Groups, call: Callable[..., Awaitable[Any]]) -> None:
        self._groups = groups
        self._call = call
        self.roster = Roster()
        self.members: tuple[str, ...] = ()

    async def mirror(self) -> None:
        """Make the plan what the group says, whoever changed it: its own healing, another client, a host that left."""
        group = await self._read()
        self.roster.mirror(group.active_ids, group.desired)

    async def resize(self, n: int, scheduler: Any, joined: Iterable[str]) -> None:
        """Bring the group to `n` instances.

        Parameters
        ----------
        n
            How many.
        scheduler
            RPC to the Dask scheduler, which says whom to move cheaply and moves what they hold.
        joined
            Names of the Dask workers that the scheduler knows.
        """
        group = await self._read()
        self.roster.mirror(group.active_ids, group.desired)
        if n >= len(self.roster):
            if n != group.desired:
                await self._call(self._groups.set_desired, WORKERS, n)
            self.roster.grow_to(n)
            await self._read_members_into_plan()
            return
        excess = len(self.roster) - n
        cancelled = self.roster.cancel_pending(excess)
        if cancelled:
            # AWS may end a booting host instead of a launch that has not happened: the group is read again before anyone is chosen.
            await self._call(self._groups.set_desired, WORKERS, len(self.roster))
            group = await self._read()
            self.roster.mirror(group.active_ids, len(self.roster))
        excess = len(self.roster.instance_ids) - n
        if excess > 0:
            by_cost = await self._by_cost(scheduler, excess)
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
        chosen = list(victims)
        names = [name for name in joined if host_of(name) in set(chosen)]
        if names:
            await scheduler.retire_workers(names=names, remove=True, close_workers=True)
        group = await self._read()
        how = removal(group.active_ids, chosen, booting=group.booting_ids)
        await self._call(self._groups.remove, WORKERS, how)
        self.roster.drop(chosen)
        await self._read_members_into_plan()

    async def _read(self) -> Group:
        groups = await self._call(self._groups.describe)
        if WORKERS not in groups:
            raise ClusterError(
                "The cluster's worker group is gone: somebody destroyed the cluster.",
                advice="make the cluster again; `terradask list` shows those there are",
            )
        group: Group = groups[WORKERS]
        self.members = group.active_ids
        return group

    async def _read_members_into_plan(self) -> None:
        group = await self._read()
        self.roster.mirror(group.active_ids, max(group.desired, len(group.active_ids)))

    async def _by_cost(self, scheduler: Any, n: int) -> list[str]:
        names = await scheduler.workers_to_close(n=n, attribute="name")
        return list(dict.fromkeys(host_of(name) for name in names))


def host_of(worker_name: Any) -> str:
    """Return the instance id of a Dask worker: its name, less the number of the worker on its host."""
    name = str(worker_name)
    prefix, dash, rest = name.partition("-")
    if not dash or prefix != "i":
        return name
    instance, dash, number = rest.partition("-")
    return f"i-{instance}" if dash and number.isdigit() else name


class Pace:
    """How long to wait between looks at AWS: short while something is on its way, longer and longer otherwise."""

    def __init__(self, shortest_seconds: float = 0.25, longest_seconds: float = 15.0) -> None:
        self._shortest = shortest_seconds
        self._longest = longest_seconds
        self._next = shortest_seconds
        self._wake = asyncio.Event()

    def hurry(self) -> None:
        """Look again soon, and often from then on."""
        self._wake.set()

    async def wait(self) -> None:
        """Wait for the next look: at least the shortest time, however often somebody is in a hurry."""
        try:
            await asyncio.wait_for(self._wake.wait(), self._next)
        except TimeoutError:
            self._next = min(self._next * 2, self._longest)
        else:
            self._wake.clear()
            self._next = self._shortest
            await asyncio.sleep(self._shortest)
