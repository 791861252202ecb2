"""Groups of workers scale together: in one look, and a call for each."""

from __future__ import annotations

import asyncio
import datetime
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from distributed.deploy.adaptive import Adaptive

from terradask import Cluster
from terradask._aws.groups import Group, Member
from terradask._aws.launch_problem import LaunchProblem
from terradask._aws.rate_limit import RateLimiter
from terradask._dask.adaptive import adaptive_for, adaptive_options
from terradask._dask.health import Health
from terradask._dask.host_workers import JoinedWorkers
from terradask._dask.pool import WorkerGroupState, WorkerPool
from terradask._dask.workers import Workers
from terradask._deployments.pending_launches import PendingLaunches
from terradask.errors import ArgumentCombination, InvalidInput, UnsupportedOption
from terradask_stacks.errors import SettingsError

from .group_facts import START, deployment

CHAINS = {"workers": ("workers",), "gpu": ("gpu-spot", "gpu")}


class FakeGroups:
    """Three groups at an AWS that has what it is told to have."""

    def __init__(self, **has: int) -> None:
        self.has = has
        self.desired = {name: 0 for names in CHAINS.values() for name in names}
        self.there: dict[str, list[str]] = {name: [] for name in self.desired}
        self.calls: Counter[str] = Counter()
        self.asked: list[str] = []
        self._serial = 0

    def describe(self) -> dict[str, Group]:
        self.calls["describe"] += 1
        return {
            name: Group(name, n, 100, tuple(Member(i, "InService") for i in self.there[name]))
            for name, n in self.desired.items()
        }

    def set_desired(self, name: str, n: int) -> None:
        self.calls["set"] += 1
        self.desired[name] = n
        while len(self.there[name]) < min(n, self.has.get(name.replace("-", "_"), 1000)):
            self._serial += 1
            self.there[name].append(f"i-{name.replace('-', '')}{self._serial:02}")

    def protect(self, name: str, instance_ids: Any) -> None:
        pass

    def remove(self, name: str, how: Any, pause: Any) -> bool:
        self.calls["remove"] += 1
        gone = (
            set(self.there[name]) - set(how.survivors)
            if hasattr(how, "survivors")
            else set(how.instance_ids)
        )
        self.there[name] = [i for i in self.there[name] if i not in gone]
        self.desired[name] = (
            how.desired if hasattr(how, "desired") else self.desired[name] - len(gone)
        )
        return True

    def failures(self, name: str) -> list[tuple[datetime.datetime, LaunchProblem]]:
        self.asked.append(name)
        short = len(self.there[name]) < self.desired[name]
        return (
            [(datetime.datetime.now(datetime.UTC), LaunchProblem("UnfulfillableCapacity", "no"))]
            if short
            else []
        )


class FakeScheduler:
    """Finds those cheapest to move whose names come first, and remembers whom it retired."""

    def __init__(self, *names: str, target: int = 0) -> None:
        self.names, self.retired, self.wanted = list(names), [], target

    async def workers_to_close(self, n: int | None = None, **_: Any) -> list[str]:
        return sorted(self.names)[:n]

    async def adaptive_target(self, target_duration: Any = None) -> int:
        return self.wanted

    async def identity(self, n_workers: int) -> dict[str, Any]:
        return {"workers": {name: {"name": name, "metrics": {}} for name in self.names}}

    async def retire_workers(self, names: list[str], **_: Any) -> dict[str, Any]:
        self.retired += names
        return {name: {"name": name} for name in names}


async def call(function: Any, *args: Any) -> Any:
    return function(*args)


def workers_on(groups: FakeGroups) -> Workers:
    pending_launches = PendingLaunches(groups, call, started_at=START, fallback_seconds=60)  # type: ignore[arg-type]
    return Workers(groups, CHAINS, pending_launches, call, limiter=RateLimiter())  # type: ignore[arg-type]


def test_groups_grow_together_in_one_look_and_a_call_each() -> None:
    groups = FakeGroups()
    workers = workers_on(groups)
    asyncio.run(workers.resize({"workers": 3, "gpu": 2}, None))
    assert groups.desired == {"workers": 3, "gpu-spot": 2, "gpu": 0}
    assert groups.calls == {"describe": 2, "set": 2}
    assert len(workers.plan) == 5
    assert workers.members == {*groups.there["workers"], *groups.there["gpu-spot"]}


def test_who_leaves_is_chosen_within_the_group() -> None:
    groups = FakeGroups()
    workers = workers_on(groups)

    async def main() -> FakeScheduler:
        await workers.resize({"workers": 3, "gpu": 2}, None)
        scheduler = FakeScheduler(*workers.members)
        # The scheduler finds the other group's workers cheaper.
        await workers.resize({"workers": 1}, scheduler)
        return scheduler

    scheduler = asyncio.run(main())
    assert sorted(scheduler.retired) == ["i-workers01", "i-workers02"]
    assert groups.desired == {"workers": 1, "gpu-spot": 2, "gpu": 0}
    assert workers.plan == {"i-workers03", *groups.there["gpu-spot"]}


def test_one_grows_while_another_shrinks_and_what_has_not_come_goes_first() -> None:
    groups = FakeGroups(workers=2)
    workers = workers_on(groups)

    async def main() -> FakeScheduler:
        await workers.resize({"workers": 4, "gpu": 1}, None)
        assert (
            sorted(name for name in workers.plan if name.startswith("pending-"))
            == ["pending-1", "pending-2"]
            or len(workers.plan) == 5
        )
        scheduler = FakeScheduler(*workers.members)
        await workers.resize({"workers": 1, "gpu": 3}, scheduler)
        return scheduler

    scheduler = asyncio.run(main())
    assert scheduler.retired == ["i-workers01"]
    assert groups.desired == {"workers": 1, "gpu-spot": 3, "gpu": 0}
    assert len(workers.plan) == 4


def test_pending_workers_of_two_groups_are_not_each_other() -> None:
    workers = workers_on(FakeGroups(workers=0, gpu_spot=0, gpu=0))
    asyncio.run(workers.resize({"workers": 2, "gpu": 2}, None))
    assert len(workers.plan) == 4
    assert all(name.startswith("pending-") for name in workers.plan)


def test_a_group_falls_back_for_itself_and_only_one_is_asked_in_a_look() -> None:
    groups = FakeGroups(gpu_spot=1)
    workers = workers_on(groups)

    async def main() -> None:
        await workers.resize({"workers": 2, "gpu": 3}, None)
        await workers.watch()
        await workers.pending_launches.read_failures()
        await workers.watch()

    asyncio.run(main())
    assert groups.asked == ["gpu-spot"]
    assert groups.desired == {"workers": 2, "gpu-spot": 1, "gpu": 2}


def test_a_group_that_gets_nothing_is_told_and_the_others_count_as_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("terradask._deployments.pending_launches._SETTLED_SECONDS", 0.0)
    groups = FakeGroups(gpu_spot=0, gpu=0)
    workers = workers_on(groups)

    async def main() -> None:
        await workers.resize({"workers": 2, "gpu": 1}, None)
        for _ in range(4):
            await workers.watch()
            await workers.pending_launches.read_failures()

    asyncio.run(main())
    shortfall = workers.pending_launches.shortfall
    assert shortfall is not None
    assert (shortfall.there, shortfall.wanted, sorted(shortfall.problems)) == (
        2,
        3,
        ["gpu", "gpu-spot"],
    )


def small_pool() -> WorkerPool:
    """Three workers, two of them in a group with a name, that AWS is sent no other number of."""
    workers = workers_on(FakeGroups())
    asyncio.run(workers.resize({"workers": 1, "gpu": 2}, None))
    nothing: Any = None
    return WorkerPool(
        deployment(),
        workers,
        nothing,
        joined=JoinedWorkers(),
        health=Health("etl", on_lost=lambda: None),
        run=nothing,
    )


def test_a_number_is_that_of_the_group_without_a_name() -> None:
    pool = small_pool()
    pool.scale(4)
    assert pool.requests.targets == {"workers": 4}
    pool.scale(3, group="gpu")
    assert pool.requests.targets == {"workers": 4, "gpu": 3}
    pool.scale({"workers": 0, "gpu": 5})
    assert pool.requests.targets == {"workers": 0, "gpu": 5}
    # What is asked for is in the plan at once; what is to go stays until it is gone.
    assert {name: len(group.plan) for name, group in pool.groups.items()} == {
        "workers": 4,
        "gpu": 5,
    }
    assert pool.wanted == 5


def test_a_group_that_is_not_there_and_a_table_with_a_group_are_refused_before_any_call() -> None:
    pool = small_pool()
    with pytest.raises(InvalidInput, match="no group of workers 'tpu'"):
        pool.scale(1, group="tpu")
    with pytest.raises(InvalidInput, match="gpu"):
        pool.scale({"workers": 1, "gpu": 6})
    with pytest.raises(ArgumentCombination, match="mapping already contains the groups"):
        pool.scale({"gpu": 1}, group="gpu")
    assert not pool.requests.are_new


def adaptive_target(scheduler: FakeScheduler, own: set[str], others: set[str]) -> int:
    class Tested(adaptive_for(Adaptive, group="workers")):  # type: ignore[misc]
        def __init__(self) -> None:
            state = WorkerGroupState(frozenset(own), frozenset(own), frozenset(own))
            self.cluster = SimpleNamespace(
                observed=own | others,
                worker_groups={"workers": state},
                worker_names=lambda: [*own, *others],
                scheduler_comm=scheduler,
            )
            self.target_duration = "3m"

        def stop(self, reason: str = "unknown") -> None:
            pass

    tested = Tested()
    assert tested.plan == tested.requested == tested.observed == own
    wanted: int = asyncio.run(tested.target())
    return wanted


def test_adapting_leaves_the_groups_with_names_as_they_are() -> None:
    own, others = {"i-0a", "i-0b"}, {"i-0c", "i-0d"}
    assert adaptive_target(FakeScheduler(target=7), own, others) == 5
    assert adaptive_target(FakeScheduler(target=4), own, others) == 2
    # Idle are one of its own and one that stays.
    assert adaptive_target(FakeScheduler("i-0a", "i-0c", target=2), own, others) == 1


def test_the_signature_takes_groups() -> None:
    with pytest.raises(SettingsError, match="no group of workers can be named"):
        Cluster("etl", worker_groups={"spot": {}})


def test_a_group_with_a_name_does_not_adapt() -> None:
    amounts: dict[str, Any] = dict.fromkeys(
        ("minimum_cores", "maximum_cores", "minimum_memory", "maximum_memory")
    )
    size = small_pool().host_size
    with pytest.raises(UnsupportedOption, match="scale the group by its name"):
        adaptive_options(Adaptive, deployment(), size, minimum=1, maximum=2, group="gpu", **amounts)


def test_what_is_asked_for_is_in_the_plan_while_aws_is_told() -> None:
    groups = FakeGroups()
    workers = workers_on(groups)
    seen: list[int] = []

    def set_desired(name: str, n: int) -> None:
        seen.append(len(workers.plan))
        FakeGroups.set_desired(groups, name, n)

    groups.set_desired = set_desired  # type: ignore[method-assign]
    asyncio.run(workers.resize({"workers": 3, "gpu": 2}, None))
    assert seen == [5, 5]
