"""Waiting for workers: reports are read in turns, which neither hold up who has joined nor keep
from telling who failed.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from distributed.core import Status

from terradask._aws.rate_limit import RateLimiter
from terradask._dask.health import Health
from terradask._dask.host_workers import JoinedWorkers
from terradask._dask.waiting import WorkerWaiter
from terradask._observe.shortfall import Pool, Shortfall
from terradask._observe.status import HostReports
from terradask.errors import NoCapacity, WorkersMissing
from terradask_host.rules.launch_problem import read_problem

from ..waiting import HANG_SECONDS, eventually_async


class Objects:
    """Reports of workers' hosts, all in one state."""

    def __init__(self, hosts: int, state: str) -> None:
        self.names = [f"i-{number}" for number in range(hosts)]
        self.state = state
        self.lists = self.reads = 0

    def host_versions(self) -> dict[str, str]:
        self.lists += 1
        return dict.fromkeys(self.names, self.state)

    def read_all(self, names: list[str]) -> list[dict[str, Any] | None]:
        self.reads += len(names)
        fields = {
            "role": "worker",
            "group": "workers",
            "reason": "no disk",
            "at": "2026-11-20T05:15:00Z",
            "run_id": "r1",
        }
        return [
            {
                "instance_id": name.removeprefix("hosts/").removesuffix(".json"),
                "state": self.state,
                **fields,
            }
            for name in names
        ]


async def call(function: Any, *args: Any) -> Any:
    return function(*args)


class LateWorkers(JoinedWorkers):
    """Workers that join when the test says so."""

    def join(self, names: list[str]) -> None:
        self.scheduler_info = {"workers": {name: {"name": name} for name in names}}


def waiter_for(objects: Objects, limiter: RateLimiter) -> tuple[WorkerWaiter, LateWorkers]:
    deployment: Any = SimpleNamespace(
        name="etl", descriptor=SimpleNamespace(workers_per_host=1), objects=objects, limiter=limiter
    )
    joined, health = LateWorkers(), Health("etl")
    health.status = Status.running
    pool: Any = SimpleNamespace(
        plan=frozenset(),
        shortfall=None,
        deployment=deployment,
        run=SimpleNamespace(run_id="r1"),
        joined=joined,
        health=health,
        call=call,
    )
    return WorkerWaiter(pool, HostReports(deployment.objects, "r1"), report_seconds=0.01), joined


def waited(waiter: WorkerWaiter, n: int, timeout: float | None = None) -> None:
    async def main() -> None:
        async with asyncio.timeout(HANG_SECONDS):
            await waiter.wait(n, timeout)

    asyncio.run(main())


def test_when_all_hosts_failed_it_ends_and_tells_of_all() -> None:
    objects = Objects(6, "failed")
    with pytest.raises(WorkersMissing, match="6 hosts failed"):
        waited(waiter_for(objects, RateLimiter(0.001))[0], 6)
    assert objects.reads == 6


def test_a_look_reads_a_listing_and_four_reports() -> None:
    objects = Objects(1000, "booting")
    waiter, joined = waiter_for(objects, RateLimiter(0.001))

    async def main() -> None:
        waiting = asyncio.create_task(waiter.wait(1000))
        lists = await eventually_async(lambda: objects.lists > 3 and objects.lists)
        # The last look may be under way.
        assert 4 * (lists - 1) <= objects.reads <= 4 * objects.lists
        joined.join(objects.names)
        await asyncio.wait_for(waiting, HANG_SECONDS)

    asyncio.run(main())


def test_who_has_joined_is_not_held_up_by_reports() -> None:
    limiter = RateLimiter(3600)
    limiter.note()
    waiter, joined = waiter_for(Objects(1, "booting"), limiter)

    async def main() -> None:
        waiting = asyncio.create_task(waiter.wait(1))
        await asyncio.sleep(0.1)
        joined.join(["i-0"])
        await asyncio.wait_for(waiting, HANG_SECONDS)

    asyncio.run(main())


def test_when_the_time_is_up_all_are_told_at_once() -> None:
    objects = Objects(100, "booting")
    limiter = RateLimiter(3600)
    limiter.note()
    with pytest.raises(WorkersMissing, match=r"i-0 \(workers\) booting"):
        waited(waiter_for(objects, limiter)[0], 100, timeout=0.0)
    assert objects.reads == 100


@pytest.mark.parametrize(
    ("refusal", "passes"),
    [
        ("We currently do not have sufficient m6i.large capacity", True),
        ("The requested reservation does not have sufficient compatible capacity", True),
        ("You have requested more vCPU capacity than your current vCPU limit of 5 allows", False),
    ],
)
def test_machines_that_may_come_later_are_waited_for(refusal: str, passes: bool) -> None:
    waiter, joined = waiter_for(Objects(1, "booting"), RateLimiter(0.001))
    waiter.capacity_timeout_seconds = 60.0
    pool: Any = waiter.pool
    pool.shortfall = Shortfall(1, 0, {"workers": (read_problem(refusal),)})
    pool.deployment.descriptor.pools = {
        "workers": Pool(("us-east-1a",), "on-demand", ("m6i.large",))
    }
    refusals: list[NoCapacity] = []

    async def main() -> None:
        waiting = asyncio.create_task(
            waiter.wait(1, on_refusal=lambda refused, left: refusals.append(refused))
        )
        await eventually_async(lambda: refusals or waiting.done())
        joined.join(["i-0"])
        await asyncio.wait_for(waiting, HANG_SECONDS)

    if passes:
        asyncio.run(main())
        assert len(refusals) == 1
    else:
        with pytest.raises(NoCapacity):
            asyncio.run(main())
