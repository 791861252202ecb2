"""Mirror an attached cluster's workers from the Auto Scaling groups, and scale them by commands to
the scheduler's host.

The groups are authoritative: they replace failed hosts, and clients mirror them. All numbers and
names are those of hosts: several Dask workers on a host start and end together.

Three sets are kept apart, as in ``distributed.deploy.adaptive_core``:

* **plan**: the workers that should exist: instance ids, and ``pending-N`` for those that the group
  has not shown yet;
* **requested**: the group's members;
* **observed**: the workers that the scheduler knows.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from terradask._common.once import OncePerCause
from terradask._dask.host_workers import HostSize, JoinedWorkers, host_of
from terradask._dask.threads import Call, cancelled
from terradask.errors import ClusterError, InvalidInput, TerradaskError
from terradask_modules.names import SCHEDULER_GROUP, WORKER_GROUP

if TYPE_CHECKING:
    from terradask._clusters.deployment import Deployment
    from terradask._clusters.launch import ScaleCheck
    from terradask._clusters.pending_launches import PendingLaunches
    from terradask._dask.adaptive import ScalingPolicies
    from terradask._dask.health import Health, RunCheck
    from terradask._observe.shortfall import Shortfall
    from terradask_host.rules.autoscaling_groups import Group

PENDING_PREFIX = "pending-"


def planned_names(group: str, members: Sequence[str], n: int) -> tuple[str, ...]:
    """Return the plan of a group: its instances, and a name ``pending-N`` for each host that AWS
    hasn't shown yet.
    """
    label = "" if group == WORKER_GROUP else f"{group}-"
    missing = range(1, n - len(members) + 1)
    return (*members, *(f"{PENDING_PREFIX}{label}{number}" for number in missing))


class ScaleRequests:
    """Unconfirmed scale requests: threads add them, the event loop's thread sends them. A group's
    later number replaces its earlier one.
    """

    def __init__(self) -> None:
        #: Numbers of workers, by group, and hosts to remove.
        self.targets: dict[str, int] = {}
        self.removals: frozenset[str] = frozenset()
        #: Whether something was requested since the last `take`.
        self.are_new = False
        self._changing = threading.Lock()

    def target(self, numbers: Mapping[str, int]) -> None:
        """Request numbers of workers, by group."""
        with self._changing:
            self.targets, self.are_new = {**self.targets, **numbers}, True

    def remove(self, hosts: Iterable[str]) -> None:
        """Request the removal of these hosts."""
        with self._changing:
            self.removals, self.are_new = self.removals.union(hosts), True

    def take(self) -> tuple[dict[str, int], frozenset[str]]:
        """Return all requests, to be sent."""
        with self._changing:
            self.are_new = False
            return self.targets, self.removals

    def drop(self, numbers: Mapping[str, int], hosts: frozenset[str]) -> None:
        """Drop requests that were carried out or finally refused. Later numbers stay."""
        with self._changing:
            self.targets = {k: n for k, n in self.targets.items() if numbers.get(k) != n}
            self.removals -= hosts


def read_numbers(n: int | Mapping[str, int], group: str | None, **amounts: Any) -> dict[str, int]:
    """Return the numbers in the arguments of `Cluster.scale`, by group of workers."""
    if not isinstance(n, Mapping):
        return {WORKER_GROUP if group is None else group: n}
    others = {
        name: value for name, value in {"group": group, **amounts}.items() if value is not None
    }
    if others:
        raise InvalidInput(
            "A mapping already contains the groups and their numbers of workers.",
            given=", ".join(
                f"{name}={value!r}" for name, value in {"n": dict(n), **others}.items()
            ),
            allowed='scale(4, group="gpu"), or scale({"gpu": 4})',
            advice=f"leave {', '.join(f'`{name}`' for name in others)} out",
        )
    return dict(n)


# ---- the groups, mirrored and scaled -------------------------------------------------------------


#: Intervals between polls of AWS; the last is the longest while instances are launching.
_SHORTEST_SECONDS, _LONGEST_SECONDS, _AWAITED_SECONDS = 0.25, 15.0, 2.0


class PollInterval:
    """The interval between polls of AWS: short after a change, growing without one."""

    def __init__(self) -> None:
        self._next = _SHORTEST_SECONDS
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Poll again soon, and restart from the shortest interval."""
        self._wake.set()

    async def wait(self, longest_seconds: float) -> None:
        """Wait for the next poll: at least the shortest time, regardless of `wake`."""
        try:
            await asyncio.wait_for(self._wake.wait(), min(self._next, longest_seconds))
        except TimeoutError:
            self._next = min(self._next * 2, longest_seconds)
        else:
            self._wake.clear()
            self._next = _SHORTEST_SECONDS
            await asyncio.sleep(_SHORTEST_SECONDS)


logger = logging.getLogger("terradask")

#: Longest wait for an answer from the scheduler's memory.
_POLICIES_SECONDS = 5.0


@dataclass(frozen=True)
class WorkerGroupState:
    """State of a group of workers.

    Parameters
    ----------
    plan
        Names of the workers that should exist, as in `Cluster.plan`.
    requested
        Instance ids of its hosts.
    observed
        Instance ids of those that have joined the scheduler.
    """

    plan: frozenset[str]
    requested: frozenset[str]
    observed: frozenset[str]


@dataclass(eq=False, repr=False)
class WorkerPool:
    """The groups of workers of one cluster, mirrored and scaled."""

    deployment: Deployment
    policies: ScalingPolicies
    pending_launches: PendingLaunches
    _: KW_ONLY
    joined: JoinedWorkers
    health: Health
    run: RunCheck
    call: Call
    interval: PollInterval = field(default_factory=PollInterval)
    requests: ScaleRequests = field(default_factory=ScaleRequests, init=False)
    #: Held until hosts that leave have been ended, not until instances have booted.
    lock: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    #: The last answer of AWS, by the cluster's own names of its Auto Scaling groups.
    described: Mapping[str, Group] = field(default_factory=dict, init=False)
    _polling: asyncio.Task[None] | None = field(default=None, init=False)
    #: Logged causes: each is logged once.
    _failures: OncePerCause = field(default_factory=OncePerCause, init=False)
    _shortfalls: OncePerCause = field(default_factory=OncePerCause, init=False)
    _problems: OncePerCause = field(default_factory=OncePerCause, init=False)
    _limited: OncePerCause = field(default_factory=OncePerCause, init=False)

    # ---- state -----------------------------------------------------------------------------------

    @property
    def groups(self) -> dict[str, WorkerGroupState]:
        """State of each group of workers."""
        observed, targets = self.joined.hosts, self.requests.targets
        found = {}
        for name, chain in self._chains.items():
            members = [one for group in chain for one in group.active_ids]
            # Requested workers count at once; removed ones count until they are gone.
            n = max(_desired(chain), targets.get(name, 0))
            found[name] = WorkerGroupState(
                plan=frozenset(planned_names(name, members, n)),
                requested=frozenset(members),
                # A joined host that AWS doesn't list belongs to no group.
                observed=frozenset(observed.intersection(members)),
            )
        return found

    @property
    def _chains(self) -> dict[str, tuple[Group, ...]]:
        """The Auto Scaling groups of each group of workers, for all markets."""
        described = self.described
        return {
            name: tuple(described[each] for each in names if each in described)
            for name, names in self.deployment.descriptor.worker_groups.items()
        }

    @property
    def plan(self) -> set[str]:
        """Names of the workers that should exist."""
        return {name for group in self.groups.values() for name in group.plan}

    @property
    def requested(self) -> set[str]:
        """Instance ids of the groups' members."""
        return {name for group in self.groups.values() for name in group.requested}

    @property
    def wanted(self) -> int:
        """The requested number of workers of all groups together."""
        # Requests on their way to the scheduler's host are in no plan yet.
        targets = self.requests.targets
        return sum(targets.get(name, len(group.plan)) for name, group in self.groups.items())

    @property
    def run_is_over(self) -> bool:
        """Whether the scheduler's group is at zero."""
        scheduler = self.described.get(SCHEDULER_GROUP)
        return scheduler is not None and not scheduler.desired

    @property
    def shortfall(self) -> Shortfall | None:
        """The capacity shortfall and its reasons, if known."""
        return self.pending_launches.shortfall

    def host_size(self, group: str) -> HostSize:
        """Return the size of the smallest host of a group that has joined."""
        groups = self.groups
        return HostSize.smallest(
            self.joined.workers, groups[group].observed if group in groups else ()
        )

    # ---- requests --------------------------------------------------------------------------------

    def scale(
        self,
        n: int | Mapping[str, int] = 0,
        memory: Any = None,
        cores: Any = None,
        *,
        group: str | None = None,
    ) -> None:
        """Scale the cluster to `n` workers, or each group to its number.

        The scheduler's host does it, also when this client has ended. Growing requests instances
        and doesn't wait for the workers; see `wait_for_workers`. If AWS's vCPU quotas are too
        small, a warning is logged, and as many start as they allow. Shrinking first moves
        the data of the leaving workers. A group that adapts stops adapting, which the log and the
        events record; `adapt` begins it again.

        Parameters
        ----------
        n
            Number of workers of the group; or a mapping of groups to numbers, ``{"workers": 0,
            "gpu": 4}``.
        memory, cores
            Least total amounts of the group, such as ``"100 GiB"`` and 64, converted by the size of
            its smallest host that has joined.
        group
            Name of the group. By default ``workers``, which every cluster has. Other groups don't
            change.

        Raises
        ------
        ClusterClosed
            When this object has left the cluster.
        ClusterStopped
            When the cluster doesn't run any more.
        InvalidInput
            When a number isn't whole, is negative or more than the group's ``max_workers``, there
            is no such group, or a mapping is combined with a group or amounts; before any call.
        """
        numbers = read_numbers(n, group, memory=memory, cores=cores)
        if memory is not None or cores is not None:
            numbers = {
                name: self.host_size(name).least(number, cores=cores, memory=memory)
                for name, number in numbers.items()
            }
        for name, number in numbers.items():
            self.deployment.check_workers(number, name)
        # Before the request: the check starts from the current plan.
        self._quotas.consider(numbers)
        self.requests.target(numbers)

    async def scale_up(self, n: int, reason: str | None = None) -> None:
        """Scale the group ``workers`` up *to* `n` workers (not by `n`); a smaller number changes
        nothing.

        Parameters
        ----------
        n
            Number of workers.
        reason
            Text for the log.

        Raises
        ------
        ClusterClosed, ClusterStopped, InvalidInput
            As `scale` does.
        """
        logger.info(
            "cluster %s: scaling up to %d workers%s",
            self.health.name,
            n,
            f": {reason}" if reason else "",
        )
        if n > len(self.groups[WORKER_GROUP].plan):
            self.deployment.check_workers(n)
            self.requests.target({WORKER_GROUP: n})
            async with self.lock:
                await self.apply()

    async def scale_down(self, workers: Iterable[Any]) -> None:
        """End the hosts of these workers after moving their data.

        Parameters
        ----------
        workers
            Names of Dask workers, or names in `plan`.

        Raises
        ------
        ClusterClosed, ClusterStopped
            As `scale` does.
        """
        self.requests.remove(host_of(name) for name in workers)
        async with self.lock:
            await self.apply()

    async def recommendations(self, target: int) -> dict[str, Any]:
        """Return what scaling the group ``workers`` to `target` would change.

        Parameters
        ----------
        target
            Number of workers.

        Returns
        -------
        dict
            ``{"status": "same"}``, ``{"status": "up", "n": target}`` or ``{"status": "down",
            "workers": names}``.
        """
        group = self.groups[WORKER_GROUP]
        if target == len(group.plan):
            return {"status": "same"}
        if target > len(group.plan):
            return {"status": "up", "n": target}
        excess = len(group.plan) - target
        close = await self.policies.removal_candidates({WORKER_GROUP: target})
        pending = sorted(group.plan - group.requested, reverse=True)[: excess - len(close)]
        return {"status": "down", "workers": [*pending, *close]}

    async def workers_to_close(self, target: int) -> list[str]:
        """Return which workers to close so that `target` remain in the group ``workers``, the
        cheapest to move first.

        Parameters
        ----------
        target
            Number of workers.

        Returns
        -------
        list of str
            Names, as in `plan`: those of hosts, also with several workers on a host.
        """
        own = self.groups[WORKER_GROUP].observed
        return [
            host
            for host in await self.policies.removal_candidates({WORKER_GROUP: target})
            if host in own
        ]

    @cached_property
    def _quotas(self) -> ScaleCheck:
        """The background check of numbers against AWS's quotas, which are read once."""
        from terradask._clusters.launch import ScaleCheck

        name = self.deployment.name
        return ScaleCheck(
            self.deployment.aws,
            self.deployment.descriptor,
            lambda text: logger.warning("cluster %s: %s", name, text),
            {name: len(group.plan) for name, group in self.groups.items()},
        )

    # ---- sending ---------------------------------------------------------------------------------

    async def apply(self) -> None:
        """Have the scheduler's host carry out the requests; the caller holds `lock`."""
        if not self.health.is_running:
            return
        try:
            await self._send()
        finally:
            self.interval.wake()

    async def _send(self) -> None:
        """Send pending requests. After a transient failure, the next poll sends them again."""
        from terradask._aws.translation import is_transient

        numbers, removals = self.requests.take()
        if not (numbers or removals):
            return
        chains = self._chains
        fewer = [*chains] if removals else [n for n in numbers if numbers[n] < _desired(chains[n])]
        try:
            # The scheduler's host has no permission for minimums. AWS (asg-minimum)
            for group in (one for name in fewer for one in chains[name] if one.min_size):
                await self.call(self.deployment.groups.clear_minimum, group.name)
            await self.policies.scale(numbers, removals)
        except Exception as error:
            if not is_transient(error):
                self.requests.drop(numbers, removals)
            raise
        try:
            await self._mirror()
            # The next poll may come after this client's end.
            with contextlib.suppress(OSError, ClusterError):
                await self._warn_of_limits()
        finally:
            # Until here, waiting for workers counts these.
            self.requests.drop(numbers, removals)

    # ---- polling ---------------------------------------------------------------------------------

    async def start(self, described: Mapping[str, Group] | None = None) -> None:
        """Read the groups, unless given, and start polling them."""
        if described is None:
            await self._mirror()
        else:
            self._store(described)
        self._polling = asyncio.create_task(self.poll())

    async def _mirror(self) -> None:
        """Read the groups for a waiting caller, without a slot."""
        self.deployment.limiter.note()
        self._store(await self.call(self.deployment.groups.describe))

    def _store(self, described: Mapping[str, Group]) -> None:
        names = self.deployment.descriptor.worker_groups.values()
        gone = [name for each in names for name in each if name not in described]
        if gone:
            from terradask._aws.group_facts import groups_gone

            raise groups_gone(self.deployment.name, gone)
        self.described = described

    async def stop(self) -> None:
        """Stop polling the groups."""
        await cancelled(self._polling)

    def on_workers_changed(self, *, left: bool) -> None:
        """Poll the groups soon if workers left, or workers outside the plan have joined."""
        if left or not self.joined.hosts <= self.plan:
            self.interval.wake()

    async def poll(self) -> None:
        """Poll the groups until the cluster is closed or over."""
        pending_launches = self.pending_launches
        failed = False
        while self.health.is_running and self.health.ended is None:
            # Poll at the usual interval if the reason of missing instances is known, or AWS
            # throttles: its limit is the account's, and terminations count too.
            awaited = pending_launches.pending and pending_launches.shortfall is None and not failed
            await self.interval.wait(_AWAITED_SECONDS if awaited else _LONGEST_SECONDS)
            if not self.health.is_running:
                return
            failed = True
            try:
                if pending_launches.must_read_failures:
                    async with self.deployment.limiter.async_slot():
                        await pending_launches.read_failures()
                async with self.deployment.limiter.async_slot():
                    await self.refresh()
                await self._refresh_policies()
                if self.run_is_over:
                    await self.run.note_if_over()
                self._failures.clear()
                failed = False
            except InterruptedError:
                return
            except Exception as error:
                level = self._failures.level(f"{type(error).__name__}: {error}")
                name = self.health.name
                if isinstance(error, TerradaskError):
                    logger.log(level, "cluster %s: %s", name, error)
                else:
                    logger.log(
                        level, "cluster %s: can't read its groups of workers", name, exc_info=True
                    )

    async def _refresh_policies(self) -> None:
        """Read the groups' scaling policies for display, and what limits keep from growing, if the
        scheduler answers soon.
        """
        if self.health.unreachable is None and not self.run_is_over:
            with contextlib.suppress(OSError, ClusterError):
                async with asyncio.timeout(_POLICIES_SECONDS):
                    await self.policies.refresh()
                    await self._warn_of_limits()

    async def _warn_of_limits(self) -> None:
        """Log what the workspace's limits keep from growing, once for each limit."""
        limited = sorted((await self.policies.read_limited()).items())
        self._warn_once(
            self._limited,
            {
                f"{group}: {found['limit']}": "the workspace's limits allow group "
                f"{group} {found['text']}"
                for group, found in limited
            },
        )

    def _warn_once(self, logged: OncePerCause, found: Mapping[str, str]) -> None:
        """Log what was found, by cause, unless it was logged since there was nothing."""
        for cause, text in found.items():
            if logged.is_new(cause):
                logger.warning("cluster %s: %s", self.health.name, text)
        if not found:
            logged.clear()

    async def refresh(self) -> None:
        """Read the groups, and send pending requests."""
        # Scaling holds the lock and reads the groups itself.
        if self.lock.locked():
            return
        async with self.lock:
            if not self.requests.are_new:
                self._store(await self.call(self.deployment.groups.describe))
                self.pending_launches.update([*self._chains.values()])
                self._warn()
                # If the scheduler's group is at zero, retire no worker and launch nothing.
                if not self.run_is_over:
                    await self._send()

    def _warn(self) -> None:
        """Log the reasons of missing workers, once for each cause."""
        from terradask._observe.problems import group_problems
        from terradask._observe.shortfall import describe
        from terradask._observe.verdict import texts

        name, descriptor, shortfall = self.health.name, self.deployment.descriptor, self.shortfall
        if shortfall is not None and shortfall.there and self._shortfalls.is_new(*shortfall.causes):
            logger.warning("cluster %s: %s", name, describe(shortfall, descriptor.pools))
        elif not self.pending_launches.pending:
            self._shortfalls.clear()
        found = texts(group_problems(descriptor, self.described, raised=True))
        self._warn_once(self._problems, {each: each for each in found})


def _desired(chain: Sequence[Group]) -> int:
    return sum(group.desired for group in chain)
