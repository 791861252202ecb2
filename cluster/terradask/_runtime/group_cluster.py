"""A SpecCluster whose workers are the instances of an Auto Scaling group."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from distributed.core import Status
from distributed.deploy.adaptive import Adaptive
from distributed.deploy.cluster import Cluster as DaskCluster
from distributed.deploy.spec import SpecCluster

from terradask._runtime.delivery import Delivery
from terradask._runtime.deployment import Deployment
from terradask._runtime.documents import Run
from terradask._runtime.host_workers import counting_hosts, host_of, hosts_to_close, is_extra, whole_hosts
from terradask._runtime.joining import check_joining
from terradask._runtime.missing import MissingHosts
from terradask._runtime.options import unsupported
from terradask._runtime.shortage import Shortfall, describe, no_capacity
from terradask._runtime.workers import Pace, Workers
from terradask.errors import InvalidInput, WorkersMissing

logger = logging.getLogger("terradask")

DEFAULT_ADAPTIVE_MAXIMUM = 200

#: As the setting `spot_fallback_seconds` has it, which older deployments lack.
DEFAULT_FALLBACK_SECONDS = 60

_JOIN_POLL_SECONDS = 0.05

#: While instances are on their way the groups are looked at this often, at least.
_AWAITED_SECONDS = 2.0

#: Reports are looked at this often while waiting for workers.
_REPORT_SECONDS = 5.0


class GroupCluster(SpecCluster):  # type: ignore[misc]
    """A SpecCluster whose workers are the instances of an Auto Scaling group.

    The group is the truth: it replaces what dies, and this object mirrors it. What SpecCluster does to worker objects of its own is not
    used. Three of its traps are avoided: retiring by name (it passes names where addresses are expected), one name for worker, host and
    plan, and a lock that is held only while AWS is told, not until instances have booted.

    All numbers and names are those of hosts: where a host has several Dask workers, they come and go together.
    """

    _pool: ThreadPoolExecutor
    _workers: Workers | None = None
    _pace: Pace | None = None
    _monitor: asyncio.Task[None] | None = None
    _target: int | None = None
    _leaving: frozenset[str] = frozenset()
    _told_causes: frozenset[tuple[str, str]] = frozenset()

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

    async def _start_watching(self) -> None:
        """Read the groups for the first time, and mirror them from then on."""
        groups, descriptor = self._deployment.groups, self._deployment.descriptor
        delivery = Delivery(
            groups,
            self._call,
            started_at=datetime.datetime.fromisoformat(self._current_run.started_at),
            fallback_seconds=float(descriptor.settings.get("spot_fallback_seconds", DEFAULT_FALLBACK_SECONDS)),
        )
        self._workers = Workers(groups, descriptor.worker_groups, delivery, self._call, workers_per_host=self._workers_per_host)
        self._pace = Pace()
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
        return asyncio.get_running_loop().run_in_executor(self._pool, function, *args)

    # ---- scaling --------------------------------------------------------------------------------------------------

    @property
    def plan(self) -> set[str]:
        """Names of the workers that should exist: instance ids, and ``pending-N`` for those that AWS has not shown yet."""
        return set(self._workers.roster.names) if self._workers is not None else set()

    @property
    def requested(self) -> set[str]:
        """Instance ids of the group's members."""
        return set(self._workers.members) if self._workers is not None else set()

    @property
    def observed(self) -> set[str]:
        """Instance ids of the workers that have joined the scheduler."""
        return {host_of(name) for name in self._joined_names()}

    def scale(self, n: int = 0, memory: Any = None, cores: Any = None) -> Any:
        """Scale the cluster to `n` workers.

        Growing is handed to AWS and not waited for; see `wait_for_workers`. Shrinking moves what the leaving workers hold to those that
        stay, first.

        Parameters
        ----------
        n
            Number of workers.
        memory, cores
            Not built yet.

        Raises
        ------
        InvalidInput
            When `n` is no whole number, negative or more than ``max_workers``, before any call.
        UnsupportedOption
            For `memory` and `cores`.
        """
        for name, value in (("memory", memory), ("cores", cores)):
            if value is not None:
                raise unsupported(f"scale({name}=)", value, "scale to a number of workers")
        if isinstance(n, bool) or not isinstance(n, int):
            raise InvalidInput("A cluster is scaled to a whole number of workers.", given=n, allowed="0 or more")
        self._deployment.check_workers(n)
        self._target = n
        if self._workers is not None and n > len(self._workers.roster):
            self._workers.roster.grow_to(n)
            self._show_plan()
        if self.asynchronous:
            return self._correct_state()
        self.loop.add_callback(self._correct_state)
        return None

    async def scale_up(self, n: int, reason: str | None = None) -> None:
        """Scale up *to* `n` workers (not by).

        Parameters
        ----------
        n
            Number of workers in all.
        reason
            Noted in the log.
        """
        logger.info("cluster %s: scaling up to %d workers%s", self.name, n, f": {reason}" if reason else "")
        if n > len(self.plan):
            self._deployment.check_workers(n)
            self._target = n
            await self._correct_state()

    async def scale_down(self, workers: Any) -> None:
        """End the hosts of these workers, with what they hold moved first.

        Parameters
        ----------
        workers
            Names of Dask workers, or those of `plan`.
        """
        self._leaving |= frozenset(host_of(w) for w in workers)
        await self._correct_state()

    async def recommendations(self, target: int) -> dict[str, Any]:
        """Tell what scaling to `target` would mean.

        Parameters
        ----------
        target
            Number of workers.

        Returns
        -------
        dict
            ``{"status": "same"}``, ``{"status": "up", "n": target}`` or ``{"status": "down", "workers": names}``.
        """
        if target == len(self.plan):
            return {"status": "same"}
        if target > len(self.plan):
            return {"status": "up", "n": target}
        excess = len(self.plan) - target
        absent = sorted(self.plan - self.observed, reverse=True)[:excess]
        close = await self.workers_to_close(target) if len(absent) < excess else []
        return {"status": "down", "workers": (absent + close)[:excess]}

    async def workers_to_close(self, target: int) -> list[str]:
        """Ask the scheduler which workers to close for `target` to remain, the cheapest to move first.

        With several workers on a host these are hosts, as in `plan`.
        """
        excess = max(len(self.observed) - target, 0)
        return await hosts_to_close(self.scheduler_comm, self._workers_per_host, excess)

    def adapt(
        self,
        Adaptive: type[Adaptive] = Adaptive,  # noqa: N803 (Dask's own name)
        *,
        minimum: int = 1,
        maximum: int | None = None,
        target_duration: str = "3m",
        wait_count: int = 24,
        interval: str = "5s",
        **kwargs: Any,
    ) -> Adaptive:
        """Scale with the work there is.

        Parameters
        ----------
        Adaptive
            Class that decides.
        minimum
            Workers that stay when there is nothing to do.
        maximum
            Most workers. By default 200, or ``max_workers`` where that is less.
        target_duration
            How long work should take: the shorter, the faster the cluster grows.
        wait_count
            How many times in a row a worker must be found superfluous before it leaves.
        interval
            Time between looks.
        **kwargs
            As of `distributed.deploy.Adaptive`.

        Raises
        ------
        InvalidInput
            When the bounds make no sense, or `maximum` is more than ``max_workers``.
        """
        most = self._deployment.descriptor.max_workers
        maximum = min(DEFAULT_ADAPTIVE_MAXIMUM, most) if maximum is None else maximum
        if not isinstance(minimum, int) or not isinstance(maximum, int) or not 0 <= minimum <= maximum:
            raise InvalidInput(
                "Adaptive scaling needs bounds.",
                given=f"minimum={minimum}, maximum={maximum}",
                allowed=f"0 <= minimum <= maximum <= {most}",
                advice="give whole numbers",
            )
        self._deployment.check_workers(maximum)
        return super().adapt(
            Adaptive=counting_hosts(Adaptive, self._workers_per_host, extra_worker=self._has_extra_worker),
            minimum=minimum,
            maximum=maximum,
            target_duration=target_duration,
            wait_count=wait_count,
            interval=interval,
            **kwargs,
        )

    async def _correct_state_internal(self) -> None:
        async with self._lock:
            self._correct_state_waiting = None
            workers = self._workers
            if workers is None or self.status != Status.running:
                return
            target, self._target = self._target, None
            leaving, self._leaving = self._leaving, frozenset()
            try:
                if leaving:
                    await workers.remove(leaving, self.scheduler_comm, self._joined_names())
                if target is not None:
                    await workers.resize(target, self.scheduler_comm, self._joined_names())
                if not leaving and target is None:
                    await workers.mirror()
            finally:
                self._show_plan()
            if self._pace is not None:
                self._pace.hurry()

    def worker_names(self) -> list[str]:
        """Names of all Dask workers that have joined, the one beside the scheduler included."""
        # A copy: the loop's thread adds and removes workers while others look.
        return [d["name"] for d in list(self.scheduler_info["workers"].values())]

    def _joined_names(self) -> list[str]:
        return [name for name in self.worker_names() if not is_extra(name)]

    def _show_plan(self) -> None:
        # SpecCluster's own views of the plan: its widget counts these.
        self.worker_spec = dict.fromkeys(self._workers.roster.names if self._workers else (), self.new_spec)

    async def _watch_group(self) -> None:
        assert self._pace is not None
        assert self._workers is not None
        delivery = self._workers.delivery
        while self.status == Status.running:
            # With nothing new to be known, what is missing is looked for as rarely as anything else.
            awaited = delivery.owing and delivery.shortfall is None
            await self._pace.wait(calls=1 + delivery.calls, longest_seconds=_AWAITED_SECONDS if awaited else None)
            if self.status != Status.running:
                return
            try:
                async with self._lock:
                    if self._target is None and not self._leaving:
                        await self._workers.watch()
                        self._show_plan()
                        self._tell_shortfall()
            except Exception:
                logger.warning("cluster %s: can't read its worker group", self.name, exc_info=True)

    def _tell_shortfall(self) -> None:
        """Warn of workers that AWS doesn't launch, once for each cause."""
        shortfall = self._shortfall
        if shortfall is not None and shortfall.there and not shortfall.causes <= self._told_causes:
            logger.warning("cluster %s: %s", self.name, describe(shortfall, self._deployment.descriptor.pools))
            self._told_causes |= shortfall.causes
        elif self._workers is not None and not self._workers.delivery.owing:
            self._told_causes = frozenset()

    @property
    def _shortfall(self) -> Shortfall | None:
        return self._workers.delivery.shortfall if self._workers is not None else None

    def _update_worker_status(self, op: str, msg: Any) -> None:
        # Not SpecCluster's: it would end what it takes for lost, and the group heals itself.
        DaskCluster._update_worker_status(self, op, msg)
        if self._pace is not None and (op == "remove" or not self.observed <= self.plan):
            self._pace.hurry()

    # ---- waiting --------------------------------------------------------------------------------------------------

    def wait_for_workers(self, n_workers: int | None = None, timeout: float | None = None) -> Any:
        """Wait until workers have joined.

        Parameters
        ----------
        n_workers
            How many; all that the cluster is scaled to where left out.
        timeout
            Longest wait, in seconds. By default there is no limit.

        Raises
        ------
        WorkersMissing
            When they have not come in time, or as many hosts have failed as were waited for: a `TimeoutError` that says how far each
            missing host came.
        NoCapacity
            When AWS launches none at all, and says why.
        InvalidInput
            When `n_workers` is no whole number, or negative.
        InterruptedError
            When the cluster is closed meanwhile.
        """
        if n_workers is not None and (isinstance(n_workers, bool) or not isinstance(n_workers, int) or n_workers < 0):
            raise InvalidInput("A number of workers to wait for is a whole number.", given=n_workers, allowed="0 or more")
        return self.sync(self._wait_for_workers, n_workers, timeout=timeout)

    async def _wait_for_workers(self, n_workers: int | None = None, timeout: float | None = None, takes_fewer: bool = False) -> None:
        started = time.monotonic()
        next_report = started + _REPORT_SECONDS
        missing = MissingHosts(self._deployment.objects, self._run_id)
        while len(self._joined_hosts()) < (n := self._wanted() if n_workers is None else n_workers):
            now = time.monotonic()
            if self.status != Status.running:
                raise InterruptedError(f"cluster {self._deployment.name!r} was closed")
            shortfall = self._shortfall
            if shortfall is not None and shortfall.certain:
                if not shortfall.there:
                    raise no_capacity(self._deployment.name, shortfall, self._deployment.descriptor.pools)
                if takes_fewer and len(self._joined_hosts()) >= shortfall.there:
                    return
            late = timeout is not None and now > started + timeout
            if late or now > next_report:
                await self._call(self._check_joining, missing, n, now - started, late)
                next_report = time.monotonic() + _REPORT_SECONDS
            await asyncio.sleep(_JOIN_POLL_SECONDS)

    def _joined_hosts(self) -> set[str]:
        """Instance ids of the hosts all of whose workers have joined."""
        return whole_hosts(self._joined_names(), self._workers_per_host)

    def _wanted(self) -> int:
        return self._target if self._target is not None else len(self.plan)

    def _check_joining(self, missing: MissingHosts, n: int, waited_seconds: float, late: bool) -> None:
        name, joined, plan = self._deployment.name, self._joined_hosts(), self.plan

        def check(*, everything: bool) -> None:
            reports = missing.look(joined, everything=everything)
            check_joining(name, n, reports, joined=joined, plan=plan, waited_seconds=waited_seconds, late=late)

        try:
            check(everything=late)
        except WorkersMissing:
            # It tells of all hosts, also of those whose turn had not come.
            check(everything=True)
            raise
