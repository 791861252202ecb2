"""Waiting for workers: reports are read in turns, which neither hold up who has joined nor keep from telling who failed."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from distributed.core import Status

from terradask._aws.rate_limit import RateLimiter
from terradask._dask import waiting as awaited_cluster
from terradask._dask.waiting import AwaitedCluster
from terradask.errors import WorkersMissing


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
        fields = {"role": "worker", "group": "workers", "reason": "no disk", "at": "2026-11-20T05:15:00Z", "run_id": "r1"}
        return [{"instance_id": name.removeprefix("hosts/").removesuffix(".json"), "state": self.state, **fields} for name in names]


class Waiting(AwaitedCluster):
    """Waits, with everything else made up."""

    status = Status.running
    plan: Any = frozenset()

    def __init__(self, objects: Objects, limiter: RateLimiter) -> None:
        descriptor = SimpleNamespace(workers_per_host=1)
        self._fake = SimpleNamespace(name="etl", descriptor=descriptor, objects=objects, limiter=limiter)
        self.joined: list[str] = []

    def __del__(self, *_: Any) -> None:
        pass

    @property
    def _deployment(self) -> Any:
        return self._fake

    @property
    def _current_run(self) -> Any:
        return SimpleNamespace(run_id="r1")

    def _joined_names(self) -> list[str]:
        return self.joined

    async def _call(self, function: Any, *args: Any) -> Any:
        return function(*args)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(awaited_cluster, "_REPORT_SECONDS", 0.01)


def waited(cluster: Waiting, n: int, timeout: float | None = None) -> None:
    async def main() -> None:
        async with asyncio.timeout(20):
            await cluster._wait_for_workers(n, timeout)

    asyncio.run(main())


def test_when_all_hosts_failed_it_ends_and_tells_of_all() -> None:
    objects = Objects(6, "failed")
    with pytest.raises(WorkersMissing, match="6 hosts failed"):
        waited(Waiting(objects, RateLimiter(0.001)), 6)
    assert objects.reads == 6


def test_a_look_reads_a_listing_and_four_reports() -> None:
    objects = Objects(1000, "booting")
    cluster = Waiting(objects, RateLimiter(0.001))

    async def main() -> None:
        waiting = asyncio.create_task(cluster._wait_for_workers(1000))
        while objects.lists < 4:
            await asyncio.sleep(0.01)
        assert 12 <= objects.reads <= 16
        cluster.joined = objects.names
        await asyncio.wait_for(waiting, 10)

    asyncio.run(main())


def test_who_has_joined_is_not_held_up_by_reports() -> None:
    limiter = RateLimiter(3600)
    limiter.note()
    cluster = Waiting(Objects(1, "booting"), limiter)

    async def main() -> None:
        waiting = asyncio.create_task(cluster._wait_for_workers(1))
        await asyncio.sleep(0.1)
        cluster.joined = ["i-0"]
        await asyncio.wait_for(waiting, 10)

    asyncio.run(main())


def test_when_the_time_is_up_all_are_told_at_once() -> None:
    objects = Objects(100, "booting")
    limiter = RateLimiter(3600)
    limiter.note()
    with pytest.raises(WorkersMissing, match=r"i-0 \(workers\) booting"):
        waited(Waiting(objects, limiter), 100, timeout=0.0)
    assert objects.reads == 100


def test_the_watch_leaves_the_groups_to_who_scales() -> None:
    cluster = Waiting(Objects(0, "running"), RateLimiter(0.001))
    looked = []

    async def watch() -> None:
        looked.append(True)

    async def main() -> None:
        cluster._lock, cluster._targets, cluster.new_spec = asyncio.Lock(), {}, None
        workers: Any = SimpleNamespace(watch=watch, abandoned=True)
        async with cluster._lock:
            await asyncio.wait_for(cluster._look_at_groups(workers), 5)
        assert not looked
        await cluster._look_at_groups(workers)
        assert looked

    asyncio.run(main())
