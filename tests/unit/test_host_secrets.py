"""Secrets on their way from a client through a real scheduler to real workers; and where they leave
no trace.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, Nanny, Scheduler, Worker
from distributed.core import rpc

from terradask._dask.commands import send
from terradask_host.commands import SendSecrets
from terradask_host.preload import credentials_endpoint, secret_store
from terradask_host.preload.commands import Commands
from terradask_host.preload.credentials_endpoint import take
from terradask_host.preload.secret_store import SecretStore

from .test_host_credentials_endpoint import credentials

VALUE = "a-planted-value"


@pytest.fixture(autouse=True)
def _own_environ(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Workers in this process change its variables."""
    before = dict(os.environ)
    monkeypatch.setattr(secret_store, "RETRY_SECONDS", 0.05)
    yield
    if credentials_endpoint.own_endpoint.cache_info().currsize:
        credentials_endpoint.own_endpoint().close()
        credentials_endpoint.own_endpoint.cache_clear()
    for name in os.environ.keys() - before.keys():
        del os.environ[name]


@pytest.fixture
async def scheduler() -> AsyncIterator[Scheduler]:
    async with Scheduler(
        host="127.0.0.1", port=0, dashboard=False, dashboard_address=":0"
    ) as scheduler:
        store = SecretStore(scheduler)
        Commands(scheduler, {SendSecrets: store.take})
        yield scheduler


def worker(scheduler: Scheduler, name: str) -> Any:
    return Worker(scheduler.address, name=name, nthreads=1, dashboard=False, dashboard_address=":0")


async def confide(scheduler: Scheduler, **given: Any) -> list[str]:
    """Send it as a client does, and return who missed it."""
    async with rpc(scheduler.address) as remote:
        answer = await send(remote, "etl", SendSecrets(**given))
        return list(answer["missed"])


async def test_workers_that_are_there_and_later_ones_fetch_it(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[tuple[Any, ...]] = []
    from terradask_host.preload import confided_plugin

    monkeypatch.setattr(confided_plugin, "take", lambda *given: taken.append(given))
    async with worker(scheduler, "a"):
        assert await confide(scheduler, environ={"PLANTED": VALUE}) == []
        assert taken == [({"PLANTED": VALUE}, None)]
        assert os.environ["PLANTED"] == VALUE, "the scheduler has it too"
        held = credentials("hers")
        assert await confide(scheduler, credentials=held) == []
        assert taken[1:] == [({"PLANTED": VALUE}, held)]
        assert await confide(scheduler, environ={"PLANTED": "other", "MORE": "1"}) == []
        assert taken[2:] == [({"PLANTED": "other", "MORE": "1"}, held)]
        async with worker(scheduler, "b"):
            assert taken[3:] == [taken[2]]


async def test_a_nannys_worker_has_it_when_its_first_task_runs_and_after_a_restart(
    scheduler: Scheduler,
) -> None:
    await confide(scheduler, environ={"PLANTED": VALUE}, credentials=credentials("hers"))
    for name in (
        "PLANTED",
        *(name for name in list(os.environ) if name.startswith("AWS_CONTAINER_")),
    ):
        # This process is the scheduler's here, and the nanny's.
        del os.environ[name]

    def look() -> tuple[str | None, bool, bytes]:
        started_with = Path(
            "/proc/self/environ" if sys.platform == "linux" else os.devnull
        ).read_bytes()
        return (
            os.environ.get("PLANTED"),
            "AWS_CONTAINER_CREDENTIALS_FULL_URI" in os.environ,
            started_with,
        )

    async with (
        Client(scheduler.address, asynchronous=True) as client,
        Nanny(scheduler.address, nthreads=1, dashboard=False, dashboard_address=":0"),
    ):
        for _ in range(2):
            value, served, started_with = await client.submit(look, pure=False)
            assert (value, served) == (VALUE, True)
            assert VALUE.encode() not in started_with
            await client.restart()


async def test_whoever_can_not_be_told_is_named_and_whoever_left_is_not(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = scheduler.broadcast
    async with (
        worker(scheduler, "deaf") as deaf,
        worker(scheduler, "gone") as gone,
        worker(scheduler, "there"),
    ):

        async def broadcast(*, workers: list[str], **rest: Any) -> dict[str, Any]:
            heard = await told(workers=workers, **rest)
            if gone.address in workers:
                await gone.close()
            return {
                **heard,
                **{w.address: OSError("cut") for w in (deaf, gone) if w.address in workers},
            }

        monkeypatch.setattr(scheduler, "broadcast", broadcast)
        assert await confide(scheduler, environ={"PLANTED": VALUE}) == ["deaf"]


async def test_neither_logs_nor_a_dump_nor_the_plugin_hold_it(
    scheduler: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    held = credentials("hers")
    caplog.set_level(logging.DEBUG)
    for name in (
        "distributed",
        "distributed.core",
        "distributed.worker",
        "distributed.scheduler",
        "distributed.comm",
    ):
        caplog.set_level(logging.DEBUG, logger=name)
    logging.getLogger("distributed").addHandler(caplog.handler)
    try:
        async with worker(scheduler, "a") as one, Client(scheduler.address, asynchronous=True):
            await confide(scheduler, environ={"PLANTED": VALUE}, credentials=held)
            async with worker(scheduler, "b"):
                dump = await scheduler.get_cluster_state(exclude=[])
            kept = repr(
                (
                    scheduler.worker_plugins,
                    {name: vars(plugin) for name, plugin in one.plugins.items()},
                    scheduler.identity(),
                    dump,
                )
            )
    finally:
        logging.getLogger("distributed").removeHandler(caplog.handler)
    assert "terradask_command" in caplog.text, "Dask's messages were logged, or this proves little"
    assert "terradask-confided" in kept
    for text in (caplog.text, kept):
        assert VALUE not in text
        assert held["SecretAccessKey"] not in text
        assert held["Token"] not in text


def test_newer_credentials_are_served_where_the_older_were() -> None:
    take({}, credentials("older"))
    before = {
        name: value for name, value in os.environ.items() if name.startswith("AWS_CONTAINER_")
    }
    take({}, credentials("newer"))
    assert before == {
        name: value for name, value in os.environ.items() if name.startswith("AWS_CONTAINER_")
    }
    assert (
        credentials_endpoint.own_endpoint().answer(
            "/credentials", before["AWS_CONTAINER_AUTHORIZATION_TOKEN"]
        )[1]["AccessKeyId"]
        == "newer"
    )
