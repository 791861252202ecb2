"""Hosts of workers that AWS recommends to replace are emptied one at a time, as the scheduler sees
it.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from terradask_host.preload import drain
from terradask_host.preload.drain import DRAIN_OPERATION, allow_draining

from ..waiting import HANG_SECONDS


class Scheduler:
    """Workers by address, of whom some are running."""

    def __init__(self, *names: str) -> None:
        self.handlers: dict[str, Any] = {}
        self.workers = {
            name: SimpleNamespace(name=name, last_seen=0.0, executing={}) for name in names
        }
        self.running = set(names)
        self.asked: list[str] = []
        self.has_room = True

    async def retire_workers(
        self, *, names: list[str], close_workers: bool, remove: bool
    ) -> dict[str, Any]:
        assert not close_workers
        assert not remove
        self.asked += names
        if not self.has_room:
            return {}
        self.running -= set(names)
        return dict.fromkeys(names)

    def heartbeat(self, name: str, *executing: str) -> None:
        self.workers[name].last_seen = float("inf")
        self.workers[name].executing = dict.fromkeys(executing, 1.0)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain, "POLL_SECONDS", 0.001)


async def _soon() -> None:
    await asyncio.sleep(0.02)


def test_a_host_is_empty_once_it_has_said_that_it_runs_nothing() -> None:
    async def main() -> None:
        scheduler = Scheduler("i-1", "i-2")
        allow_draining(scheduler)
        task = asyncio.ensure_future(scheduler.handlers[DRAIN_OPERATION](names=["i-1"]))
        await _soon()
        assert not task.done()
        scheduler.heartbeat("i-1", "x")
        await _soon()
        assert not task.done()
        scheduler.heartbeat("i-1")
        assert await task

    asyncio.run(main())


def test_the_next_waits_until_as_many_run_as_before() -> None:
    async def main() -> None:
        scheduler = Scheduler("i-1", "i-2")
        allow_draining(scheduler)
        scheduler.heartbeat("i-1")
        scheduler.heartbeat("i-2")
        assert await scheduler.handlers[DRAIN_OPERATION](names=["i-1"])
        second = asyncio.ensure_future(scheduler.handlers[DRAIN_OPERATION](names=["i-2"]))
        await _soon()
        assert scheduler.asked == ["i-1"]
        scheduler.running.add("i-3")
        assert await second
        assert scheduler.asked == ["i-1", "i-2"]

    asyncio.run(main())


def test_the_next_does_not_wait_for_ever_in_a_cluster_that_was_made_smaller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(drain, "REPLACEMENT_SECONDS", 0.05)

    async def main() -> None:
        scheduler = Scheduler("i-1", "i-2")
        allow_draining(scheduler)
        scheduler.heartbeat("i-1")
        scheduler.heartbeat("i-2")
        assert await scheduler.handlers[DRAIN_OPERATION](names=["i-1"])
        assert await asyncio.wait_for(
            scheduler.handlers[DRAIN_OPERATION](names=["i-2"]), HANG_SECONDS
        )

    asyncio.run(main())


def test_without_room_for_what_it_holds_a_host_works_on_and_keeps_nobody_waiting() -> None:
    async def main() -> None:
        scheduler = Scheduler("i-1", "i-2")
        allow_draining(scheduler)
        scheduler.has_room = False
        assert not await scheduler.handlers[DRAIN_OPERATION](names=["i-1"])
        scheduler.has_room = True
        scheduler.running.discard("i-2")
        scheduler.heartbeat("i-1")
        assert await scheduler.handlers[DRAIN_OPERATION](names=["i-1"])

    asyncio.run(main())
