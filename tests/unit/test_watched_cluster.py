"""The watch connection to a real scheduler, through a relay that is cut: subscribed again, or a typed error."""

import asyncio
import contextlib
from types import SimpleNamespace

import pytest
from distributed import Scheduler, Worker
from distributed.core import Status, rpc
from distributed.deploy.cluster import Cluster as DaskCluster

from terradask._dask import connection as watched_cluster
from terradask._dask.connection import WatchedCluster
from terradask._dask.remote import RemoteScheduler, RemoteWorker
from terradask.errors import ClusterStopped, SchedulerReplaced, SchedulerUnreachable

LIMIT_SECONDS = 15


class Relay:
    """Carries TCP connections to a scheduler, until it is cut."""

    def __init__(self):
        self.target = None
        self.is_cut = False
        self._writers = set()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.address = f"tcp://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_):
        self.cut()
        self._server.close()

    def cut(self):
        self.is_cut = True
        for writer in self._writers:
            writer.transport.abort()

    def mend(self):
        self.is_cut = False

    async def _carry(self, reader, writer):
        self._writers.add(writer)
        if self.is_cut:
            writer.transport.abort()
            return
        host, _, port = self.target.partition("://")[2].rpartition(":")
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        self._writers.add(far_writer)
        await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))

    async def _pump(self, reader, writer):
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()


class Watching(WatchedCluster):
    """Watches a scheduler that a test answers for."""

    _boot = 1

    def __init__(self, relay):
        super().__init__(worker={"cls": RemoteWorker}, asynchronous=True, name="etl")
        self.found = self.attached(boot=1)
        self._relay = relay

    def attached(self, *, boot):
        return SimpleNamespace(
            descriptor=SimpleNamespace(cluster="etl"), scheduler=SimpleNamespace(boot=boot, instance_id=f"i-{boot}"), run=None
        )

    async def _start(self):
        self.scheduler = RemoteScheduler(self._relay.address)
        self.scheduler_comm = rpc(self._relay.address)
        await DaskCluster._start(self)

    async def _reach_again(self, seconds):
        if isinstance(self.found, Exception):
            raise self.found
        if self._relay.is_cut:
            raise SchedulerUnreachable("it doesn't answer", cluster="etl", address=self._relay.address)
        return self.found

    async def _close(self):
        await DaskCluster._close(self)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(watched_cluster, "_PAUSE_SECONDS", 0.05)


async def until(condition):
    async with asyncio.timeout(LIMIT_SECONDS):
        while not condition():
            await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def watching():
    async with Relay() as relay, Scheduler(port=0, dashboard_address=":0", host="127.0.0.1") as scheduler:
        relay.target = scheduler.address
        cluster = Watching(relay)
        await cluster._start()
        try:
            yield cluster, relay, scheduler
        finally:
            await cluster._close()
            assert cluster.status == Status.closed


def test_a_cut_connection_is_made_again_and_shows_who_joined_meanwhile():
    async def main():
        async with watching() as (cluster, relay, scheduler):
            relay.cut()
            await until(lambda: cluster._unreachable is not None)
            with pytest.raises(SchedulerUnreachable):
                cluster._check_usable()
            async with Worker(scheduler.address, name="i-1"):
                assert cluster.worker_names() == []
                relay.mend()
                await until(lambda: cluster.worker_names() == ["i-1"])
                cluster._check_usable()
                async with Worker(scheduler.address, name="i-2"):
                    await until(lambda: set(cluster.worker_names()) == {"i-1", "i-2"})

    asyncio.run(main())


def test_a_scheduler_that_was_replaced_is_told_as_such():
    async def main():
        async with watching() as (cluster, relay, _):
            cluster.found = cluster.attached(boot=2)
            relay.cut()
            relay.mend()
            await until(lambda: cluster._over is not None)
            with pytest.raises(SchedulerReplaced, match="i-2, boot 2"):
                cluster._check_usable()

    asyncio.run(main())


def test_another_process_at_the_same_address_is_a_replacement_too():
    async def main():
        async with watching() as (cluster, relay, _), Scheduler(port=0, dashboard_address=":0", host="127.0.0.1") as other:
            relay.target = other.address
            relay.cut()
            relay.mend()
            await until(lambda: cluster._over is not None)
            assert isinstance(cluster._over, SchedulerReplaced)

    asyncio.run(main())


def test_a_run_that_is_over_is_told_as_such():
    async def main():
        async with watching() as (cluster, relay, _):
            cluster.found = ClusterStopped("it was stopped", cluster="etl")
            relay.cut()
            await until(lambda: cluster._over is not None)
            with pytest.raises(ClusterStopped):
                cluster._check_usable()

    asyncio.run(main())


def test_a_cluster_that_is_closed_meanwhile_looks_no_further():
    async def main():
        async with watching() as (cluster, relay, _):
            relay.cut()
            await until(lambda: cluster._unreachable is not None)
        assert cluster._watch_worker_status_task.done()

    asyncio.run(main())
