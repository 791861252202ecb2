"""A SpecCluster that shows the Auto Scaling groups of its workers, and brings them to the numbers that are wanted."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from distributed.core import Status
from distributed.deploy.cluster import Cluster as DaskCluster
from distributed.deploy.spec import SpecCluster

from terradask._aws.transient import is_transient
from terradask._dask.host_workers import LiveNames, host_of, is_extra
from terradask._dask.poll_interval import PollInterval
from terradask._dask.workers import Workers
from terradask._deployments.deployment import Deployment
from terradask._deployments.documents import Run
from terradask._deployments.pending_launches import PendingLaunches
from terradask._deployments.shortfall import Shortfall, describe
from terradask.errors import ClusterError, TerradaskError

logger = logging.getLogger("terradask")

#: As the setting `spot_fallback_seconds` has it, which older deployments lack.
DEFAULT_FALLBACK_SECONDS = 60

#: While instances are on their way the groups are looked at this often, at least.
_AWAITED_SECONDS = 2.0


@dataclass(frozen=True)
class WorkerGroupState:
    """How a group of workers is.

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


class MirroredCluster(SpecCluster):  # type: ignore[misc]
    """A SpecCluster whose workers are the instances of Auto Scaling groups.

    The groups are the truth: they replace what dies, and this object mirrors them. What SpecCluster does to worker objects of its own is
    not used. Three of its traps are avoided: retiring by name (it passes names where addresses are expected), one name for worker, host
    and plan, and a lock that is held only while AWS is told, not until instances have booted.

    All numbers and names are those of hosts: where a host has several Dask workers, they come and go together.
    """

    _pool: ThreadPoolExecutor
    _workers: Workers | None = None
    _poll_interval: PollInterval | None = None
    _monitor: asyncio.Task[None] | None = None
    _leaving: frozenset[str] = frozenset()
    #: What is wanted and AWS hasn't been told yet.
    _untold_targets: dict[str, int] | None = None
    _untold_leaving: frozenset[str] = frozenset()
    _told_causes: frozenset[tuple[str, str]] = frozenset()
    #: Why this object has no cluster any more.
    _over: ClusterError | None = None
    _told_failure = ""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        #: Group of workers -> how many it is to have, until AWS is told. Written by callers' threads, emptied by the loop's.
        self._targets: dict[str, int] = {}
        super().__init__(*args, **kwargs)

    @property
    def _deployment(self) -> Deployment:
        """The deployment that is scaled."""
        raise AttributeError("a subclass says which")

    @property
    def _current_run(self) -> Run:
        """The run that this client is attached to."""
        raise AttributeError("a subclass says which")

    @property
    def _run_id(self) -> str:
        return self._current_run.run_id

    @property
    def _workers_per_host(self) -> int:
        """How many Dask workers a host has; all that is counted here is hosts."""
        return self._deployment.descriptor.workers_per_host

    @property
    def _has_extra_worker(self) -> bool:
        return bool(self._deployment.descriptor.settings.get("extra_worker_on_scheduler"))

    def _check_usable(self) -> None:
        """Raise where the cluster doesn't run any more."""
        if self._over is not None:
            raise self._over.with_traceback(None)

    async def _find_whether_over(self) -> None:
        """Note whether the run is over, and why, where somebody stopped the cluster or it has ended by itself."""
        current = await self._call(self._deployment.current_run)
        if self._over is None and (current is None or current.run_id != self._run_id):
            self._over = await self._call(self._deployment.why_stopped, self._run_id)
            logger.warning("%s", self._over)
            with contextlib.suppress(AttributeError):
                self._adaptive.stop()

    async def _start_watching(self) -> None:
        """Read the groups for the first time, and mirror them from then on."""
        groups, descriptor = self._deployment.groups, self._deployment.descriptor
        pending_launches = PendingLaunches(
            groups,
            self._call,
            started_at=datetime.datetime.fromisoformat(self._current_run.started_at),
            fallback_seconds=float(descriptor.settings.get("spot_fallback_seconds", DEFAULT_FALLBACK_SECONDS)),
        )
        limiter, each = self._deployment.limiter, self._workers_per_host
        self._workers = Workers(groups, descriptor.worker_groups, pending_launches, self._call, limiter=limiter, workers_per_host=each)
        self._poll_interval = PollInterval()
        await self._workers.mirror()
        self._show_plan()
        self._monitor = asyncio.create_task(self._watch_group())

    async def _stop_watching(self) -> None:
        with contextlib.suppress(AttributeError):
            self._adaptive.stop()
        if self._monitor is not None:
            self._monitor.cancel()
            await asyncio.gather(self._monitor, return_exceptions=True)

    def _call(self, function: Callable[..., Any], *args: Any) -> Awaitable[Any]:
        try:
            return asyncio.get_running_loop().run_in_executor(self._pool, function, *args)
        except RuntimeError as error:
            # Threads are gone: this object is being closed, or the process ends.
            raise InterruptedError("the cluster was closed") from error

    # ---- looks ----------------------------------------------------------------------------------------------------

    @property
    def plan(self) -> set[str]:
        """Names of the workers that should exist: instance ids, and ``pending-N`` for those that AWS has not shown yet."""
        return self._workers.plan if self._workers is not None else set()

    @property
    def requested(self) -> set[str]:
        """Instance ids of the groups' members."""
        return self._workers.members if self._workers is not None else set()

    @property
    def observed(self) -> set[str]:
        """Instance ids of the workers that have joined the scheduler."""
        return {host_of(name) for name in self._joined_names()}

    @property
    def worker_groups(self) -> dict[str, WorkerGroupState]:
        """How each group of workers is: ``workers``, and those with names."""
        observed = self.observed
        sets = self._workers.sets.items() if self._workers is not None else ()
        return {
            name: WorkerGroupState(
                plan=frozenset(each.roster.names),
                requested=frozenset(each.members),
                # One that has joined and that AWS doesn't show belongs to no group.
                observed=frozenset(observed.intersection((*each.roster.names, *each.members))),
            )
            for name, each in sets
        }

    def worker_names(self) -> list[str]:
        """Names of all Dask workers that have joined, the one beside the scheduler included."""
        # A copy: the loop's thread adds and removes workers while others look.
        return [d["name"] for d in list(self.scheduler_info["workers"].values())]

    @property
    def _joined(self) -> LiveNames:
        return LiveNames(self._joined_names)

    def _joined_names(self) -> list[str]:
        return [name for name in self.worker_names() if not is_extra(name)]

    def _show_plan(self) -> None:
        # SpecCluster's own views of the plan: its widget counts these.
        self.worker_spec = dict.fromkeys(self.plan, self.new_spec)

    # ---- telling AWS ----------------------------------------------------------------------------------------------

    async def _correct_state_internal(self) -> None:
        async with self._lock:
            self._correct_state_waiting = None
            workers = self._workers
            if workers is None or self.status != Status.running:
                return
            targets = dict(self._untold_targets or {})
            while self._targets:
                name, number = self._targets.popitem()
                targets[name] = number
            self._untold_targets = targets
            self._untold_leaving, self._leaving = self._untold_leaving | self._leaving, frozenset()
            try:
                await self._tell_aws(workers)
            finally:
                if self._poll_interval is not None:
                    self._poll_interval.wake()

    async def _tell_aws(self, workers: Workers) -> None:
        """Tell AWS what is wanted. What it can't be told now, for a reason that passes, the next look tells it."""
        try:
            if self._untold_leaving:
                await workers.remove(self._untold_leaving, self.scheduler_comm, self._joined)
                self._untold_leaving = frozenset()
            if self._untold_targets:
                await workers.resize(self._untold_targets, self.scheduler_comm, self._joined)
                self._untold_targets = None
        except Exception as error:
            if not is_transient(error):
                self._untold_leaving, self._untold_targets = frozenset(), None
            raise
        finally:
            self._show_plan()

    async def _watch_group(self) -> None:
        assert self._poll_interval is not None
        assert self._workers is not None
        pending_launches = self._workers.pending_launches
        while self.status == Status.running and self._over is None:
            # With nothing new to be known, what is missing is looked for as rarely as anything else.
            awaited = pending_launches.pending and pending_launches.shortfall is None
            await self._poll_interval.wait(longest_seconds=_AWAITED_SECONDS if awaited else None)
            if self.status != Status.running:
                return
            try:
                if pending_launches.asks:
                    async with self._deployment.limiter.async_slot():
                        await pending_launches.ask()
                async with self._deployment.limiter.async_slot():
                    await self._look_at_groups(self._workers)
                if self._workers.abandoned:
                    await self._find_whether_over()
                self._told_failure = ""
            except InterruptedError:
                return
            except TerradaskError as error:
                logger.log(self._loudness(error), "cluster %s: %s", self.name, error)
            except Exception as error:
                logger.log(self._loudness(error), "cluster %s: can't read its groups of workers", self.name, exc_info=True)

    def _loudness(self, error: Exception) -> int:
        """Return the level for what went wrong: a warning when it is new, and not at every look."""
        known, self._told_failure = self._told_failure, f"{type(error).__name__}: {error}"
        return logging.DEBUG if known == self._told_failure else logging.WARNING

    async def _look_at_groups(self, workers: Workers) -> None:
        # Who scales reads the groups anyway, and has nobody wait for a turn meanwhile.
        if self._lock.locked():
            return
        async with self._lock:
            if not self._targets and not self._leaving:
                await workers.watch()
                self._show_plan()
                self._tell_shortfall()
                # Where no scheduler is wanted any more, nobody is to be retired, and nothing to be launched.
                if not workers.abandoned:
                    await self._tell_aws(workers)
                    await workers.finish(self.scheduler_comm, self._joined)
                    self._show_plan()

    def _tell_shortfall(self) -> None:
        """Warn of workers that AWS doesn't launch, once for each cause."""
        shortfall = self._shortfall
        if shortfall is not None and shortfall.there and not shortfall.causes <= self._told_causes:
            logger.warning("cluster %s: %s", self.name, describe(shortfall, self._deployment.descriptor.pools))
            self._told_causes |= shortfall.causes
        elif self._workers is not None and not self._workers.pending_launches.pending:
            self._told_causes = frozenset()

    @property
    def _shortfall(self) -> Shortfall | None:
        return self._workers.pending_launches.shortfall if self._workers is not None else None

    def _update_worker_status(self, op: str, msg: Any) -> None:
        # Not SpecCluster's: it would end what it takes for lost, and the group heals itself.
        DaskCluster._update_worker_status(self, op, msg)
        if self._poll_interval is not None and (op == "remove" or not self.observed <= self.plan):
            self._poll_interval.wake()
