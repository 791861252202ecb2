"""The workers of an attached cluster: keeps the plan, the groups and the scheduler consistent.

`scaling` decides; this module acts, in the order that loses no result: first retire at the
scheduler, then end the host. Which hosts have joined is read from the scheduler each time: what it
has reported to this client may be old, after a cut by seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from terradask._aws.autoscaling import Groups
from terradask._aws.groups import ProtectAndLower, Removal, TerminateEach, one_by_one, removal
from terradask._aws.rate_limit import POLL_INTERVAL_SECONDS, RateLimiter
from terradask._dask.host_workers import hosts_at, hosts_to_close, is_extra
from terradask._dask.scaling import PENDING_PREFIX, Roster, cheapest_victims
from terradask._deployments.pending_launches import PendingLaunches
from terradask.errors import ClusterError
from terradask_host.rules.autoscaling_groups import Group
from terradask_host.rules.markets import dearest_first, grown, without_missing
from terradask_host.structure import worker_names
from terradask_modules.names import SCHEDULER_GROUP, WORKER_GROUP

#: What one call to AWS returned, by the cluster's own names of its Auto Scaling groups.
Described = Mapping[str, Group]


class WorkerSet:
    """The workers of one group, of all markets, as known to this client."""

    def __init__(self, name: str, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self.roster = Roster(label="" if name == WORKER_GROUP else name)
        self.members: tuple[str, ...] = ()

    def chain(self, described: Described) -> list[Group]:
        """Return the Auto Scaling groups, in the order in which they are tried."""
        return [described[name] for name in self._names]

    def desired(self, described: Described) -> int:
        """Return the desired number of hosts."""
        return sum(group.desired for group in self.chain(described))

    def update_members(self, described: Described) -> None:
        """Update the members, but not the plan."""
        self.members = tuple(
            instance_id for group in self.chain(described) for instance_id in group.active_ids
        )

    def mirror(self, described: Described) -> None:
        """Set the plan to the groups' members and desired numbers."""
        self.roster.mirror(self.members, self.desired(described))

    def mirror_members(self, described: Described) -> None:
        """As `mirror`, where AWS may not have followed what it was sent."""
        self.roster.mirror(
            self.members,
            sum(max(group.desired, len(group.active_ids)) for group in self.chain(described)),
        )


#: How old a reading may be by which an instance is ended: a retired host leaves by itself later,
#: and AWS lowers the number again if it is told to end one that is on its way out.
_FRESH_SECONDS = 3.0


@dataclass(eq=False, repr=False)
class Workers:
    """The workers of one cluster, as known to this client."""

    groups: Groups
    worker_groups: Mapping[str, Sequence[str]]
    pending_launches: PendingLaunches
    call: Callable[..., Awaitable[Any]]
    _: KW_ONLY
    limiter: RateLimiter
    workers_per_host: int = 1
    #: How often hosts are retired again while AWS is told to end them. The scheduler lets none of
    #: them join for ten seconds, and a throttled call takes longer.
    retire_again_seconds: float = 5.0
    sets: dict[str, WorkerSet] = field(init=False)
    #: What AWS returned last.
    described: Described = field(default_factory=dict, init=False)
    #: Whether the scheduler's group is at zero: the run is over.
    run_is_over: bool = field(default=False, init=False)
    #: Group of workers -> the number to shrink to, and AWS's desired number at that time.
    _unfinished: dict[str, tuple[int, int]] = field(default_factory=dict, init=False)
    #: Group of workers -> the number to grow to, and the smaller one that its maximum allowed.
    _capped: dict[str, tuple[int, int]] = field(default_factory=dict, init=False)
    #: Hosts to remove that AWS doesn't end yet: their launch goes on.
    _launching: set[str] = field(default_factory=set, init=False)
    _read_at: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.sets = {name: WorkerSet(name, names) for name, names in self.worker_groups.items()}

    @property
    def _names(self) -> frozenset[str]:
        return frozenset(name for names in self.worker_groups.values() for name in names)

    @property
    def on_markets(self) -> frozenset[str]:
        """Groups of workers on several markets."""
        return frozenset(name for name, chain in self.worker_groups.items() if len(chain) > 1)

    @property
    def plan(self) -> set[str]:
        """Names of the workers that should exist, in all groups."""
        return {name for each in self.sets.values() for name in each.roster.names}

    @property
    def members(self) -> set[str]:
        """Instance ids of all groups' members."""
        return {instance_id for each in self.sets.values() for instance_id in each.members}

    async def mirror(self, described: Described | None = None) -> None:
        """Set the plan to the groups' current state, whatever has changed it."""
        self._mirror(await self._read_now() if described is None else self._note(described))

    async def watch(self) -> None:
        """As `mirror`, in the caller's slot; also note which launches are pending."""
        described = await self._read()
        self.pending_launches.update([each.chain(described) for each in self.sets.values()])
        self._mirror(described)

    async def finish(self, scheduler: Any) -> None:
        """Go on with what AWS refused during a launch, and with shrinking that missed hosts which
        AWS didn't show at that time; and with growing that a maximum prevented, which was lowered
        beside terradask.
        """
        if self._launching:
            await self.remove(self._launching, scheduler)
        if self._capped:
            await self._grow_capped(scheduler)
        if self._unfinished:
            described = await self._read()
            # Another number is that of another client, which came later.
            still = {
                name: each
                for name, each in self._unfinished.items()
                if self.sets[name].desired(described) == each[1]
            }
            self._unfinished = still
            await self.resize({name: n for name, (n, _) in still.items()}, scheduler)

    async def _grow_capped(self, scheduler: Any) -> None:
        # Another number is that of another client, which came later.
        self._capped = {
            name: each
            for name, each in self._capped.items()
            if self.sets[name].desired(self.described) == each[1]
        }
        chains = {name: self.sets[name].chain(self.described) for name in self._capped}
        due = {
            name: n
            for name, (n, _) in self._capped.items()
            if any(group.max_size > group.desired for group in chains[name])
        }
        if due:
            await self.resize(due, scheduler)

    async def resize(self, numbers: Mapping[str, int], scheduler: Any) -> None:
        """Bring groups of workers to their numbers of hosts; groups not named stay as they are."""
        described = await self._read_now()
        self._mirror(described)
        shrinking = {name: n for name, n in numbers.items() if n < len(self.sets[name].roster)}
        # Without a scheduler, nothing would end what is launched now.
        growing = {
            name: n for name, n in numbers.items() if name not in shrinking and not self.run_is_over
        }
        # At once: waiting for workers counts these while AWS is called.
        for name, n in growing.items():
            self.sets[name].roster.grow_to(n)
        for name in numbers:
            self._capped.pop(name, None)
        for name, n in growing.items():
            chain = self.sets[name].chain(described)
            raised = grown(chain, n)
            await self._set(raised)
            allowed = sum(raised.get(group.name, group.desired) for group in chain)
            if allowed < n:
                self._capped[name] = n, allowed
        victims: set[str] = set()
        if shrinking:
            joined = await hosts_at(scheduler)
            # Joined workers are retired before AWS, sent a smaller number, ends them.
            if joined.keys() <= self.members:
                described = await self._cancel_pending(shrinking, scheduler, described)
            victims = await self._victims(shrinking, scheduler, joined, described)
        if victims:
            described, _ = await self._end(victims, scheduler)
        elif growing:
            await self._read_members_into_plan()
        for name in numbers:
            self._unfinished.pop(name, None)
            # A number that was asked for later says how many stay.
            self._launching.difference_update(self.sets[name].members)
        left = {name: self.sets[name].desired(described) for name in shrinking}
        self._unfinished |= {
            name: (n, left[name]) for name, n in shrinking.items() if left[name] > n
        }

    async def remove(self, victims: Iterable[str], scheduler: Any) -> Described:
        """End exactly these hosts, after their workers' data has been moved."""
        chosen = set(victims)
        described, launching = await self._end(chosen, scheduler)
        self._launching = (self._launching - chosen) | launching
        return described

    async def _end(self, victims: Iterable[str], scheduler: Any) -> tuple[Described, set[str]]:
        """As `remove`; return also the hosts that AWS doesn't end while their launch goes on."""
        chosen, launching = set(victims), set[str]()
        unretired = {
            name
            for host in chosen
            if not is_extra(host) and not host.startswith(PENDING_PREFIX)
            for name in worker_names(host, self.workers_per_host)
        }

        async def retire() -> bool:
            if unretired:
                # The scheduler passes over names that have not joined.
                retired = await scheduler.retire_workers(
                    names=sorted(unretired), remove=True, close_workers=True
                )
                unretired.difference_update(str(each["name"]) for each in retired.values())
            return True

        await retire()
        described = await self._read_now()
        for each in self.sets.values():
            for group in each.chain(described):
                if not chosen.isdisjoint(group.active_ids):
                    missing = group.desired - len(group.active_ids)
                    how = removal(
                        group.active_ids, chosen, booting=group.booting_ids, missing=missing
                    )
                    for step in one_by_one(how):
                        if not await self._remove_once(retire, group.name, step):
                            launching.update(chosen.intersection(group.booting_ids))
            each.roster.drop(chosen)
        return await self._read_members_into_plan(), launching

    async def _remove_once(
        self, ready: Callable[[], Awaitable[bool]], group: str, how: Removal
    ) -> bool:
        """Remove instances once `ready` says so, last of all: throttled calls take seconds, in
        which hosts that were booting join. Return whether no launch prevented that.
        """
        if isinstance(how, TerminateEach) and time.monotonic() - self._read_at > _FRESH_SECONDS:
            active = (await self._read_now())[group].active_ids
            how = TerminateEach(tuple(one for one in how.instance_ids if one in active))
        survivors = how.survivors if isinstance(how, ProtectAndLower) else ()
        await self.call(self.groups.protect, group, survivors)
        is_ready = False
        try:
            is_ready = await ready()
        finally:
            if not is_ready:
                await self.call(self.groups.unprotect, group, survivors)
        if not is_ready:
            return True
        return bool(
            await self._while_ready(ready, self.call(self.groups.remove, group, how, self._pause))
        )

    async def _while_ready(self, ready: Callable[[], Awaitable[bool]], work: Awaitable[Any]) -> Any:
        """Return the result of `work`; call `ready` again and again until it is there."""
        task = asyncio.ensure_future(work)
        try:
            while not (await asyncio.wait({task}, timeout=self.retire_again_seconds))[0]:
                # What AWS was told holds, also if the scheduler doesn't answer.
                with contextlib.suppress(OSError):
                    await ready()
            return task.result()
        finally:
            task.cancel()

    async def _cancel_pending(
        self, shrinking: Mapping[str, int], scheduler: Any, described: Described
    ) -> Described:
        """Cancel launches that have not happened yet, and return the groups."""
        cancelled = []
        for name, n in shrinking.items():
            each = self.sets[name]
            if each.roster.cancel_pending(len(each.roster) - n):
                await self._cancel_launches(
                    without_missing(each.chain(described), len(each.roster)), scheduler, described
                )
                cancelled.append(each)
        if cancelled:
            # AWS may end a booting host instead of a launch: read again before choosing.
            described = await self._read_now()
            for each in cancelled:
                each.roster.mirror(each.members, len(each.roster))
        return described

    async def _cancel_launches(
        self, numbers: Mapping[str, int], scheduler: Any, described: Described
    ) -> None:
        """Lower groups to their visible members, unless one that AWS may end has joined."""
        for name, number in numbers.items():
            working = tuple(
                one for one in described[name].active_ids if one not in described[name].booting_ids
            )
            if working:
                kept = {*working, *self.members.difference(described[name].active_ids)}

                async def only_kept(kept: set[str] = kept) -> bool:
                    return (await hosts_at(scheduler)).keys() <= kept

                how = ProtectAndLower(working, desired=number, unseen=True)
                await self._remove_once(only_kept, name, how)
            else:
                await self.call(self.groups.set_desired, name, number)

    async def _victims(
        self,
        shrinking: Mapping[str, int],
        scheduler: Any,
        joined: Mapping[str, bool],
        described: Described,
    ) -> set[str]:
        """Choose the hosts to remove, in each group the cheapest to lose."""
        victims: set[str] = set()
        for name, n in shrinking.items():
            candidates = self.sets[name].roster.instance_ids
            excess = len(candidates) - n
            if excess > 0:
                by_cost = await self._by_cost(
                    scheduler, excess, self.sets[name].chain(described), joined, described
                )
                victims.update(cheapest_victims(candidates, excess, joined=joined, by_cost=by_cost))
        return victims

    async def _by_cost(
        self,
        scheduler: Any,
        n: int,
        chain: Sequence[Group],
        joined: Mapping[str, bool],
        described: Described,
    ) -> list[str]:
        """Return hosts, the cheapest to lose first: by the data to move, or by their price."""
        busy = [described[name] for name in self._names if described[name].active_ids]
        # The scheduler has no groups: if there are several, ask for all hosts.
        hosts = await hosts_to_close(scheduler, n=n if len(busy) <= 1 else len(self.members))
        mixed = sum(bool(group.active_ids) for group in chain) > 1
        idle = {host for host, is_idle in joined.items() if is_idle}
        return dearest_first(hosts, idle, chain) if mixed else hosts

    async def _set(self, numbers: Mapping[str, int]) -> None:
        for name, number in numbers.items():
            await self.call(self.groups.set_desired, name, number)

    def _pause(self) -> None:
        """Wait, in a thread, for the time of a call that follows without a slot."""
        self.limiter.note()
        time.sleep(POLL_INTERVAL_SECONDS)

    async def _read_now(self) -> Described:
        """Read for a caller that waits for it: without a slot."""
        self.limiter.note()
        return await self._read()

    async def _read(self) -> Described:
        described: Described = await self.call(self.groups.describe)
        self._read_at = time.monotonic()
        return self._note(described)

    def _note(self, described: Described) -> Described:
        gone = sorted(self._names - described.keys())
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
        for each in self.sets.values():
            each.update_members(described)
        return described

    def _mirror(self, described: Described) -> None:
        for each in self.sets.values():
            each.mirror(described)

    async def _read_members_into_plan(self) -> Described:
        described = await self._read_now()
        for each in self.sets.values():
            each.mirror_members(described)
        return described
