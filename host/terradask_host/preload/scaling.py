"""Report a scheduler's load to the host program, which scales the groups; take policies and numbers
from clients; retire workers for the host program.
"""

from __future__ import annotations

import asyncio
import sys
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from terradask_host.errors import CommandRefused
from terradask_host.preload.drain import empty
from terradask_host.preload.gauges import workers_by_host
from terradask_host.preload.leave import Questions, Report
from terradask_host.rules.membership import EXTRA_WORKER_PREFIX, instance_of
from terradask_host.trouble import Trouble

#: Sample size of waiting tasks, the same as Dask's.
SAMPLE = 100

#: Time for the host program's answer, which depends on AWS.
ANSWER_SECONDS = 60.0

#: Interval of checks for policies while no group adapts.
_LONGEST_SECONDS = 5.0

#: Interval of checks for newly waiting tasks.
_LOOK_SECONDS = 1.0


class ScalingWatch:
    """Reports a scheduler's load at intervals as long as any group adapts.

    `policies` has the documents of these groups; the host program decides about both.
    """

    def __init__(
        self, scheduler: Any, policies: Mapping[str, Any], report: Report, questions: Questions
    ) -> None:
        self._scheduler = scheduler
        self._policies = dict(policies)
        self._limited: Mapping[str, Any] = {}
        self._report = report
        self._questions = questions
        self._retiring: set[asyncio.Task[None]] = set()
        self._trouble = Trouble()
        self._changed = asyncio.Event()
        #: The host program's requests -> their handlers.
        self.words = {
            "policies": self.take_policies,
            "limited": self.take_limited,
            "retire": self.retire,
            "observe": self.observe,
        }

    def read_policies(self) -> dict[str, Any]:
        """Answer `commands.ReadPolicies`."""
        return self._policies

    def read_limits(self) -> Mapping[str, Any]:
        """Answer `commands.ReadLimits`."""
        return self._limited

    async def adapt(self, policies: Mapping[str, Any]) -> dict[str, Any]:
        """Answer `commands.Adapt`. Raises `CommandRefused`."""
        await self._ask("adapt", ANSWER_SECONDS, policies=policies)
        return self._policies

    async def scale(self, numbers: Mapping[str, int], hosts: Sequence[str]) -> dict[str, Any]:
        """Answer `commands.Scale`. Raises `CommandRefused`."""
        load = observe(self._scheduler)
        word = await self._ask("scale", None, numbers=numbers, hosts=hosts, act=True, load=load)
        return {"policies": self._policies, "ended": word["ended"]}

    async def would_leave(self, numbers: Mapping[str, int]) -> list[str]:
        """Answer `commands.ChooseHosts`. Raises `CommandRefused`."""
        load = observe(self._scheduler)
        word = await self._ask(
            "scale", ANSWER_SECONDS, numbers=numbers, hosts=[], act=False, load=load
        )
        return list(word["leaving"])

    async def _ask(self, event: str, seconds: float | None, **facts: Any) -> Mapping[str, Any]:
        """Return the host program's answer, within a limit."""
        try:
            word = await self._questions.ask(event, seconds, **facts)
        except TimeoutError:
            why = f"the scheduler's host didn't answer for {seconds:.0f} s"
            raise CommandRefused(why) from None
        if word["why"] is not None:
            raise CommandRefused(word["why"])
        return word

    def take_policies(self, word: Mapping[str, Any]) -> None:
        """Set the policies in force."""
        self._policies = dict(word["policies"])
        self._changed.set()

    def take_limited(self, word: Mapping[str, Any]) -> None:
        """Set what the workspace's limits keep from growing."""
        self._limited = word["limited"]

    def retire(self, word: Mapping[str, Any]) -> None:
        """Retire the workers of hosts, and report when their data has moved.

        Hosts to be drained finish their tasks first; `forced` ones leave even if other workers lack
        memory for their data.
        """
        hosts, drain = word["hosts"], word["drain"]
        # No retirement waits for another's tasks.
        for batch in [{host} for host in hosts] if drain else [set(hosts)]:
            task = asyncio.ensure_future(self._retire(batch, drain, forced=word["forced"]))
            self._retiring.add(task)
            task.add_done_callback(self._retiring.discard)

    def observe(self, word: Mapping[str, Any]) -> None:
        """Report the load at once."""
        self._report("observed", observed=observe(self._scheduler))

    async def _retire(self, hosts: set[str], drain: bool, *, forced: bool) -> None:
        workers = self._scheduler.workers
        names = [one.name for one in workers.values() if instance_of(str(one.name)) in hosts]
        left: set[str] = set()
        try:
            if not drain or await empty(self._scheduler, names):
                # Also hosts none of whose workers has joined: none may join from now on.
                await self._scheduler.handlers["retire_workers"](
                    names=sorted({*names, *hosts}), close_workers=True, remove=True
                )
            left = {instance_of(str(one.name)) for one in workers.values()} & hosts
        except Exception:  # noqa: BLE001 - the host program waits for the report
            left = set(hosts)
            print(f"can't retire workers: {traceback.format_exc()}", file=sys.stderr)
        kept = set() if forced else left
        self._report("retired", hosts=sorted(hosts - kept), kept=sorted(kept))

    async def run(self) -> None:
        """Report the load at the shortest of the policies' intervals, and once within an interval
        when tasks begin to wait for workers.
        """
        due, had_waiting, may_be_early = self._next_due(), False, True
        while True:
            self._changed.clear()
            try:
                async with asyncio.timeout(min(_LOOK_SECONDS, max(due - time.monotonic(), 0.0))):
                    await self._changed.wait()
                due = self._next_due()
                continue
            except TimeoutError:
                pass
            is_due = time.monotonic() >= due
            has_waiting = bool(self._scheduler.queued or self._scheduler.unrunnable)
            is_early = has_waiting and not had_waiting and may_be_early and not is_due
            if is_due or is_early:
                self._report_load(is_early=is_early)
                may_be_early = not is_early
            had_waiting = has_waiting
            due = self._next_due() if is_due else due

    def _next_due(self) -> float:
        seconds = (each["interval_seconds"] for each in self._policies.values())
        return time.monotonic() + min(seconds, default=_LONGEST_SECONDS)

    def _report_load(self, *, is_early: bool) -> None:
        if not self._policies:
            return
        try:
            self._report("load", **observe(self._scheduler, is_early=is_early))
        except Exception:  # noqa: BLE001 - a custom scheduler class may raise anything
            self._trouble.note(f"can't observe the load: {traceback.format_exc()}")


def observe(scheduler: Any, *, is_early: bool = False) -> dict[str, Any]:
    """Return the load of a scheduler, as `rules.load.Load.read` reads it."""
    by_host = workers_by_host(scheduler)
    # With a number all are named, in order; without one, those that are idle.
    closable = _hosts_to_close(scheduler, len(scheduler.workers))
    idle = len(_hosts_to_close(scheduler, None))
    in_order = set(closable)
    kept = [host for host in by_host if host not in in_order]
    return {
        "hosts": [_row(host, by_host[host]) for host in (*closable, *kept) if host in by_host],
        "idle_count": idle,
        "kept_count": len(kept),
        "waiting": list(_waiting(scheduler)),
        "is_early": is_early,
    }


def _hosts_to_close(scheduler: Any, n: int | None) -> list[str]:
    names = scheduler.workers_to_close(
        n=n, key=lambda worker: instance_of(str(worker.name)), attribute="name"
    )
    return list(dict.fromkeys(instance_of(str(name)) for name in names))


def _row(host: str, workers: list[Any]) -> list[Any]:
    row = [
        host,
        sum(worker.nthreads for worker in workers),
        round(sum(worker.occupancy for worker in workers), 3),
        sum(len(worker.processing) for worker in workers),
        sum(worker.nbytes for worker in workers),
        sum(worker.memory_limit or 0 for worker in workers),
    ]
    resources = workers[0].resources
    return [*row, dict(resources)] if resources else row


def _waiting(scheduler: Any) -> Iterable[list[Any]]:
    """Yield resources, number and estimated seconds of tasks without a worker, from a sample."""
    found: dict[tuple[tuple[str, float], ...], list[float]] = {}
    for tasks, sample in (
        (len(scheduler.queued), islice(scheduler.queued, SAMPLE)),
        (
            len(scheduler.unrunnable),
            # Across the whole list: tasks of one kind are adjacent.
            islice(scheduler.unrunnable, 0, None, max(len(scheduler.unrunnable) // SAMPLE, 1)),
        ),
    ):
        each = list(sample)
        weight = tasks / len(each) if each else 0.0
        for task in each:
            if _is_for_named_workers(task):
                continue
            key = tuple(sorted((task.resource_restrictions or {}).items()))
            count = found.setdefault(key, [0.0, 0.0])
            count[0] += weight
            count[1] += weight * scheduler._get_prefix_duration(task.prefix)
    for key, (number, seconds) in found.items():
        yield [dict(key), round(number), seconds]


def _is_for_named_workers(task: Any) -> bool:
    """Return whether a task waits for certain workers, which no new one can be."""
    named = task.worker_restrictions or task.host_restrictions
    return bool(named) and not task.loose_restrictions


# ---- the worker beside the scheduler -------------------------------------------------------------


def keep_extra_worker(scheduler: Any) -> None:
    """Exclude the worker on the scheduler's host from the scheduler's suggestions to close."""
    from distributed.diagnostics.plugin import SchedulerPlugin

    class KeepExtraWorker(SchedulerPlugin):  # type: ignore[misc]  # distributed carries no types here
        name = "terradask-extra-worker"

        def valid_workers_downscaling(self, scheduler: Any, workers: list[Any]) -> list[Any]:
            return [
                worker for worker in workers if not str(worker.name).startswith(EXTRA_WORKER_PREFIX)
            ]

    scheduler.add_plugin(KeepExtraWorker())
