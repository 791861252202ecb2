"""What is seen at a scheduler, looked at from inside a real one."""

from __future__ import annotations

import asyncio
import datetime
import socket
import struct
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from distributed import Client, Scheduler, fire_and_forget, get_client, rpc
from distributed.comm import connect
from distributed.worker import Worker

from terradask_host.preload import lifetime_watch
from terradask_host.preload.jupyter_server import CLIENT_NAME
from terradask_host.preload.lifetime_watch import (
    UPLOAD_BYTES_A_SECOND,
    LifetimeWatch,
    Observer,
    Uploads,
    received_bytes,
)
from terradask_host.preload.watchers import allow_several, watching

from ..waiting import HANG_SECONDS, eventually_async


@pytest.fixture
async def scheduler() -> AsyncIterator[Scheduler]:
    async with Scheduler(
        host="127.0.0.1", port=0, dashboard=False, dashboard_address=":0"
    ) as scheduler:
        allow_several(scheduler)
        yield scheduler


@pytest.fixture
async def observer(scheduler: Scheduler) -> Observer:
    return Observer(scheduler)


def present(observer: Observer) -> int:
    return len(observer.observe().present)


async def test_clients_and_watching_managers_are_there_while_they_are_connected(
    scheduler: Scheduler, observer: Observer
) -> None:
    assert present(observer) == 0
    async with rpc(scheduler.address) as manager:
        comm = await manager.live_comm()
        await comm.write({"op": "subscribe_worker_status"})
        await comm.read()
        assert present(observer) == 1
        async with Client(scheduler.address, asynchronous=True):
            assert present(observer) == 2
        await eventually_async(lambda: present(observer) == 1)
        comm.abort()
    # Without a worker that comes or goes, Dask itself never learns that it is gone.
    await eventually_async(lambda: present(observer) == 0)
    assert not watching(scheduler)
    assert not [name for name in scheduler.plugins if name.startswith("terradask-watch-")]


async def test_a_manager_that_comes_and_goes_between_two_looks_came() -> None:
    async with Scheduler(
        host="127.0.0.1", port=0, dashboard=False, dashboard_address=":0"
    ) as scheduler:
        observer = Observer(scheduler, came=allow_several(scheduler))
        async with rpc(scheduler.address) as manager:
            comm = await manager.live_comm()
            await comm.write({"op": "subscribe_worker_status"})
            await comm.read()
            comm.abort()
        await eventually_async(lambda: not watching(scheduler))
        look = observer.observe()
        assert len(look.came) == 1
        assert not look.present
        assert not observer.observe().came


async def test_a_workers_own_client_is_nobody_and_what_was_left_is_work(
    scheduler: Scheduler, observer: Observer
) -> None:
    async with Worker(scheduler.address, nthreads=1, dashboard=False, dashboard_address=":0"):
        async with Client(scheduler.address, asynchronous=True, set_as_default=False) as client:
            await client.submit(lambda: get_client().id)
            assert [name for name in scheduler.client_comms if name.startswith("Client-worker-")]
            assert present(observer) == 1
            fire_and_forget(client.submit(asyncio.sleep, 1.0))
            await eventually_async(lambda: scheduler.clients["fire-and-forget"].wants_what)
        await eventually_async(lambda: present(observer) == 0)
        look = observer.observe()
        assert look.left_work
        assert look.idle_seconds is None
        await eventually_async(lambda: not observer.observe().left_work)


async def test_a_published_dataset_is_work_until_it_is_computed_and_then_is_held(
    scheduler: Scheduler, observer: Observer
) -> None:
    async with Worker(scheduler.address, nthreads=1, dashboard=False, dashboard_address=":0"):
        async with Client(scheduler.address, asynchronous=True, set_as_default=False) as client:
            await client.publish_dataset(client.submit(asyncio.sleep, 1.0), name="slept")
        await eventually_async(lambda: present(observer) == 0)
        look = observer.observe()
        assert look.left_work
        assert look.holds_published
        await eventually_async(lambda: not observer.observe().left_work)
        assert observer.observe().holds_published
        async with Client(scheduler.address, asynchronous=True, set_as_default=False) as client:
            await client.unpublish_dataset("slept")
        await eventually_async(lambda: not observer.observe().holds_published)


async def test_a_notebooks_client_counts_by_its_open_kernel_alone(
    scheduler: Scheduler, observer: Observer
) -> None:
    async with Client(scheduler.address, asynchronous=True, name=CLIENT_NAME):
        assert any(name.startswith("Client-notebook-") for name in scheduler.clients)
        assert present(observer) == 0
        assert not observer.observe().came


async def test_open_kernels_are_seen_until_they_are_said_to_be_closed(scheduler: Scheduler) -> None:
    watch = LifetimeWatch(scheduler, {}, lambda *_, **__: None)
    for number in (2, 0):
        watch.note_open_kernels(number)
        assert watch._observer.observe().open_kernels == number


async def test_a_client_that_came_and_went_between_two_looks_was_there(
    scheduler: Scheduler, observer: Observer
) -> None:
    observer.observe()
    async with Client(scheduler.address, asynchronous=True) as client:
        pass
    await eventually_async(lambda: client.id not in scheduler.clients)
    look = observer.observe()
    assert look.came == {client.id}
    assert look.present == frozenset()
    assert observer.observe().came == frozenset()


async def test_what_waits_for_workers_is_work(scheduler: Scheduler, observer: Observer) -> None:
    async with Client(scheduler.address, asynchronous=True) as client:
        await eventually_async(lambda: observer.observe().idle_seconds is not None)
        future = client.submit(sum, [1])
        await eventually_async(lambda: scheduler.queued or scheduler.unrunnable)
        for _ in range(3):
            assert observer.observe().idle_seconds is None
        future.release()
        await eventually_async(lambda: observer.observe().idle_seconds is not None)


async def test_data_on_its_way_is_seen_before_dask_has_it(
    scheduler: Scheduler, observer: Observer
) -> None:
    async with Client(scheduler.address, asynchronous=True):
        comm = await connect(scheduler.address)
        await comm.write({"op": "identity"})
        await comm.read()
        before = sum(received_bytes(each) or 0 for each in scheduler._comms)
        assert before > 0
        assert not observer.observe().uploading
        await asyncio.sleep(0.1)
        assert not observer.observe().uploading
        # The beginning of a message: its length, and a part of it.
        await comm.stream.write(struct.pack("Q", 10_000_000) + b"x" * 500_000)
        await eventually_async(
            lambda: sum(received_bytes(each) or 0 for each in scheduler._comms) > before + 400_000
        )
        look = observer.observe()
        assert look.uploading
        assert look.idle_seconds is not None
        assert not observer.observe().uploading
        comm.abort()


def test_an_upload_is_more_than_signs_of_life_however_far_looks_lie_apart() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    sender = socket.create_connection(listener.getsockname())
    receiver, _ = listener.accept()
    with listener, sender, receiver:
        comm = SimpleNamespace(stream=SimpleNamespace(socket=receiver))
        comms, uploads = [Hashed(comm), Hashed(SimpleNamespace())], Uploads()
        assert not uploads.check(comms, 0.0)
        sender.sendall(b"x" * UPLOAD_BYTES_A_SECOND * 2)
        assert receiver.recv(1)
        assert uploads.check(comms, 1.0)
        sender.sendall(b"x" * UPLOAD_BYTES_A_SECOND * 2)
        assert not uploads.check(comms, 61.0)
    assert received_bytes(comm) is None


class Hashed(SimpleNamespace):
    """A connection, as a key."""

    def __init__(self, comm: SimpleNamespace) -> None:
        super().__init__(**vars(comm))

    __hash__ = object.__hash__


async def watch_until_over(scheduler: Scheduler, **life: Any) -> list[tuple[str, dict[str, Any]]]:
    told: list[tuple[str, dict[str, Any]]] = []
    watch = LifetimeWatch(
        scheduler,
        {"poll_seconds": 0.05, **life},
        lambda event, **facts: told.append((event, facts)),
    )
    async with asyncio.timeout(HANG_SECONDS):
        if "keepalive" in life:
            watch.set_keepalive(life["keepalive"])
        await watch.run()
    return told


async def test_it_tells_when_the_cluster_is_over(scheduler: Scheduler) -> None:
    ((event, facts),) = await watch_until_over(
        scheduler, idle_timeout_seconds=0.2, first_client_seconds=0
    )
    assert event == "over"
    assert facts["reason"].startswith("idle for 0.2 seconds, since ")


async def test_it_reports_a_near_end_once_and_that_it_is_off(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, dict[str, Any]]] = []
    watch = LifetimeWatch(scheduler, {}, lambda event, **facts: told.append((event, facts)))
    at = datetime.datetime(2026, 11, 20, 12, tzinfo=datetime.UTC)
    near: list[tuple[datetime.datetime, str] | None] = [None]
    monkeypatch.setattr(lifetime_watch, "near_end", lambda *_: near[0])
    for found in (None, (at, "idle since x"), (at, "idle since x"), None, None):
        near[0] = found
        watch._report_near(at)
    assert told == [
        ("ending", {"at": "2026-11-20T12:00:00Z", "reason": "idle since x"}),
        ("ending", {"at": None, "reason": None}),
    ]


async def test_it_tells_what_a_client_said_and_goes_by_it(scheduler: Scheduler) -> None:
    first, (event, facts) = await watch_until_over(
        scheduler, idle_timeout_seconds=60, keepalive=0.2, first_client_seconds=0
    )
    assert first == ("keepalive", {"seconds": 0.2})
    assert event == "over"
    assert facts["reason"].startswith("no client for 0.2 seconds, since ")


async def test_a_scheduler_that_cant_be_looked_at_complains_once_and_goes_on(
    scheduler: Scheduler, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []

    def check_idle() -> float:
        looks.append(True)
        if len(looks) < 4:
            raise RuntimeError("of my own")
        return 1.0

    monkeypatch.setattr(scheduler, "check_idle", check_idle)
    told = await watch_until_over(scheduler, idle_timeout_seconds=0.1, first_client_seconds=0)
    assert [event for event, _ in told] == ["over"]
    assert capsys.readouterr().err.count("RuntimeError: of my own") == 1
