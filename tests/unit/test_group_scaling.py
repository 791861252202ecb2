"""Groups of workers: numbers and bounds of each, and one look at all."""

from __future__ import annotations

import asyncio
import datetime
from collections import Counter
from typing import Any

import pytest
from distributed.deploy.adaptive import Adaptive

from terradask import Cluster
from terradask._aws.rate_limit import RateLimiter
from terradask._clusters.pending_launches import PendingLaunches
from terradask._dask.adaptive import read_adaptive_policy
from terradask._dask.health import Health
from terradask._dask.host_workers import JoinedWorkers
from terradask._dask.pool import WorkerPool
from terradask.errors import InvalidInput
from terradask_host.rules.autoscaling_groups import Group, Member
from terradask_host.rules.launch_problem import LaunchProblem
from terradask_host.scaling_policy import ScalingPolicy
from terradask_stacks.errors import SettingsError

from .group_facts import GPU, START, deployment, descriptor
from .unadapting import Unadapting

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

    def wants(self, **numbers: int) -> None:
        for name, n in numbers.items():
            self.set_desired(name.replace("_", "-"), n)

    def set_desired(self, name: str, n: int) -> None:
        self.calls["set"] += 1
        self.desired[name] = n
        while len(self.there[name]) < min(n, self.has.get(name.replace("-", "_"), 1000)):
            self._serial += 1
            self.there[name].append(f"i-{name.replace('-', '')}{self._serial:02}")

    def failures(self, name: str) -> list[tuple[datetime.datetime, LaunchProblem]]:
        self.asked.append(name)
        short = len(self.there[name]) < self.desired[name]
        return (
            [(datetime.datetime.now(datetime.UTC), LaunchProblem("UnfulfillableCapacity", "no"))]
            if short
            else []
        )


async def call(function: Any, *args: Any) -> Any:
    return function(*args)


def pool_on(groups: FakeGroups) -> WorkerPool:
    """Return the pool of a cluster that is sent no other number of workers."""
    described: Any = deployment()
    described.descriptor = descriptor(gpu={**GPU, "spot_policy": "spot_with_fallback"})
    described.groups, described.limiter = groups, RateLimiter(0)
    nothing: Any = None
    return WorkerPool(
        described,
        Unadapting(),  # type: ignore[arg-type]
        PendingLaunches(groups, call, started_at=START),  # type: ignore[arg-type]
        joined=JoinedWorkers(),
        health=Health("etl"),
        run=nothing,
        call=call,
    )


def test_pending_workers_of_two_groups_are_not_each_other() -> None:
    groups = FakeGroups(workers=0, gpu_spot=0, gpu=0)
    groups.wants(workers=2, gpu_spot=2)
    pool = pool_on(groups)
    asyncio.run(pool.refresh())
    assert pool.plan == {"pending-1", "pending-2", "pending-gpu-1", "pending-gpu-2"}


def test_only_one_group_is_asked_in_a_look_and_numbers_stay() -> None:
    groups = FakeGroups(gpu_spot=1)
    pool = pool_on(groups)

    async def main() -> None:
        groups.wants(workers=2, gpu_spot=3)
        await pool.refresh()
        await pool.pending_launches.read_failures()
        await pool.refresh()

    asyncio.run(main())
    assert groups.asked == ["gpu-spot"]
    # The scheduler's host moves them.
    assert groups.desired == {"workers": 2, "gpu-spot": 3, "gpu": 0}


def test_a_group_that_gets_nothing_is_told_and_the_others_count_as_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("terradask._clusters.pending_launches._SETTLED_SECONDS", 0.0)
    groups = FakeGroups(gpu_spot=0, gpu=0)
    pool = pool_on(groups)

    async def main() -> None:
        groups.wants(workers=2, gpu_spot=1)
        for number in range(4):
            await pool.refresh()
            await pool.pending_launches.read_failures()
            if not number:
                # As the scheduler's host moves it.
                groups.set_desired("gpu-spot", 0)
                groups.set_desired("gpu", 1)

    asyncio.run(main())
    shortfall = pool.shortfall
    assert shortfall is not None
    assert (shortfall.there, shortfall.wanted, sorted(shortfall.problems)) == (
        2,
        3,
        ["gpu", "gpu-spot"],
    )


def small_pool() -> WorkerPool:
    """Three workers, two of them in a group with a name, that AWS is sent no other number of."""
    groups = FakeGroups()
    groups.wants(workers=1, gpu_spot=2)
    pool = pool_on(groups)
    asyncio.run(pool.refresh())
    return pool


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
        "workers": 1,
        "gpu": 5,
    }
    assert pool.wanted == 5


def test_a_group_that_is_not_there_and_a_table_with_a_group_are_refused_before_any_call() -> None:
    pool = small_pool()
    with pytest.raises(InvalidInput, match="no group of workers 'tpu'"):
        pool.scale(1, group="tpu")
    with pytest.raises(InvalidInput, match="gpu"):
        pool.scale({"workers": 1, "gpu": 6})
    with pytest.raises(InvalidInput, match="mapping already contains the groups"):
        pool.scale({"gpu": 1}, group="gpu")
    assert not pool.requests.are_new


def test_the_signature_takes_groups() -> None:
    with pytest.raises(SettingsError, match="no group of workers can be named"):
        Cluster("etl", worker_groups={"spot": {}})


def policy(decides: type | None = None, **given: Any) -> ScalingPolicy:
    return read_adaptive_policy(deployment(), small_pool().host_size, decides, **given)[1]


def test_each_group_adapts_within_its_own_limit() -> None:
    most = deployment().descriptor.most_workers
    assert policy() == ScalingPolicy(1, most("workers"))
    assert policy(group="gpu") == ScalingPolicy(1, most("gpu"))
    assert policy(group="gpu", minimum=0, maximum=2, interval="50 ms", wait_count=3) == (
        ScalingPolicy(0, 2, wait_count=3, interval_seconds=0.05)
    )


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"group": "tpu"}, "no group of workers 'tpu'"),
        ({"minimum": 2, "maximum": 1}, "these bounds"),
        ({"maximum": float("inf")}, "these bounds"),
        ({"group": "gpu", "maximum": 100}, "max_workers"),
        ({"interval": "0s"}, "interval"),
        ({"interval": "2 hours"}, "have these times"),
        ({"wait_count": 0}, "have these times"),
        ({"target_duration": False}, "have these times"),
        ({"wait_count": 1.5}, "have these times"),
    ],
)
def test_what_can_not_be_adapted_to_is_refused(given: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        policy(**given)


def test_no_class_of_the_caller_decides() -> None:
    with pytest.raises(InvalidInput, match="your own loop"):
        policy(decides=Adaptive)
