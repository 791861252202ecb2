"""Looking at AWS again and again: what goes wrong is told once, and a closed object looks no more."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from distributed.core import Status

from terradask._aws.rate_limit import RateLimiter
from terradask._aws.session import Aws
from terradask._dask.mirrored_cluster import MirroredCluster
from terradask._dask.workers import Workers
from terradask.errors import ClusterError


class Watched(MirroredCluster):
    """A cluster whose looks go as they are told to, one after the other."""

    name = "etl"
    status = Status.running
    new_spec: Any = None
    scheduler_comm: Any = None

    def __init__(self, *limiter: Exception | None) -> None:
        self._limiter = list(limiter)
        self._targets = {}
        self._lock = asyncio.Lock()
        self._poll_interval = SimpleNamespace(wait=self._wait)
        self._workers = SimpleNamespace(
            pending_launches=SimpleNamespace(pending=False, shortfall=None, asks=False),
            watch=self._look,
            finish=self._finish,
            plan=set(),
            abandoned=False,
        )
        self._pool = ThreadPoolExecutor(1)
        self._looks_at_aws = RateLimiter(0)

    @property
    def _deployment(self) -> Any:
        return SimpleNamespace(limiter=self._looks_at_aws, aws=Aws("us-east-1"))

    def __del__(self) -> None:
        pass

    async def _wait(self, **_: Any) -> None:
        if not self._limiter:
            self.status = Status.closed

    async def _finish(self, scheduler: Any, joined: list[str]) -> None:
        pass

    def _joined_names(self) -> list[str]:
        return []

    async def _look(self) -> None:
        error = self._limiter.pop(0)
        if error is not None:
            raise error


def watch(*limiter: Exception | None) -> None:
    async def main() -> None:
        await Watched(*limiter)._watch_group()

    asyncio.run(main())


def test_what_goes_wrong_at_every_look_is_told_once_and_again_after_a_good_one(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "terradask")
    gone = ClusterError("Groups of the cluster are gone.", given="gpu", advice="make it again")
    watch(gone, gone, gone, OSError("no route"), OSError("no route"), None, OSError("no route"))
    told = [(record.getMessage().splitlines()[0], record.exc_info is not None) for record in caplog.records]
    unread = ("cluster etl: can't read its groups of workers", True)
    # What says itself what to do needs no traceback.
    assert told == [("cluster etl: Groups of the cluster are gone.", False), unread, unread]
    assert "make it again" in caplog.text


def test_without_threads_nobody_looks_any_more(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        cluster = Watched(None, None)
        cluster._pool.shutdown()

        async def look() -> None:
            await cluster._call(print)

        cluster._workers.watch = look
        await cluster._watch_group()
        assert cluster.status == Status.running

    asyncio.run(main())
    assert caplog.records == []


def test_groups_that_are_gone_are_named() -> None:
    async def call(function: Any, *args: Any) -> Any:
        return function(*args)

    groups: Any = SimpleNamespace(describe=lambda: {"workers": None})
    workers = Workers(groups, {"workers": ("workers",), "gpu": ("gpu-spot", "gpu")}, SimpleNamespace(), call, limiter=RateLimiter(0))  # type: ignore[arg-type]
    with pytest.raises(ClusterError, match="given: gpu, gpu-spot"):
        asyncio.run(workers.mirror())
