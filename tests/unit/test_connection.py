"""The watch connection to a real scheduler, through a relay that is cut: subscribed again, or a
typed error.
"""

import asyncio
import contextlib
from types import SimpleNamespace

import pytest
from distributed import Scheduler, Worker
from distributed.comm import CommClosedError, connect
from distributed.core import Status, rpc
from distributed.deploy.spec import SpecCluster
from distributed.objects import SchedulerInfo

from terradask import Cluster
from terradask._dask import connection, dial
from terradask._dask.connection import SchedulerConnection
from terradask._dask.health import Health
from terradask._dask.host_workers import JoinedWorkers
from terradask.errors import ClusterStopped, SchedulerReplaced, SchedulerUnreachable

from ..waiting import HANG_SECONDS, eventually_async


class Relay:
    """Carries TCP connections to a scheduler, until it is cut."""

    def __init__(self):
        self.target = None
        self.is_cut = False
        self.flows = asyncio.Event()
        self.flows.set()
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
                await self.flows.wait()
                writer.write(data)
                await writer.drain()
        writer.close()


def attached(*, boot):
    return SimpleNamespace(
        descriptor=SimpleNamespace(cluster="etl"),
        scheduler=SimpleNamespace(boot=boot, instance_id=f"i-{boot}"),
    )


class CutDialer:
    """Reaches what the test says, through a relay, as long as that is not cut."""

    def __init__(self, relay):
        self.found = attached(boot=1)
        self._relay = relay

    async def reach(self, attachment, seconds):
        if isinstance(self.found, Exception):
            raise self.found
        if self._relay.is_cut:
            raise SchedulerUnreachable(
                "it doesn't answer", cluster="etl", address=self._relay.address
            )
        return self.found, await connect(self._relay.address)

    async def unanswered(self, attachment, address, since):
        host = frozenset({attachment.scheduler.instance_id})
        return dial.unanswered(attachment, address, since=since, host=host)


class GoingRun:
    """The run in the bucket, until the test says that it is over."""

    def __init__(self, health):
        self._health = health
        self.over = None

    async def note_if_over(self):
        if self.over is not None:
            self._health.record_end(self.over)


async def follow(watched, joined, replacements):
    """Keep `joined` as the scheduler tells, as a cluster object does."""

    async def on_replaced(attachment):
        replacements.append(attachment)

    first = await watched.scheduler.live_comm()
    await first.write({"op": "subscribe_worker_status"})
    joined.scheduler_info = SchedulerInfo(await first.read())
    async for comm in watched.subscriptions(first, on_replaced=on_replaced):
        with contextlib.suppress(OSError):
            while True:
                for op, told in await comm.read():
                    if op == "add":
                        joined.scheduler_info["workers"].update(told["workers"])
        await comm.close()


@contextlib.asynccontextmanager
async def watching():
    async with (
        Relay() as relay,
        Scheduler(port=0, dashboard_address=":0", host="127.0.0.1") as scheduler,
    ):
        relay.target = scheduler.address
        health, joined, dialer = (
            Health("etl"),
            JoinedWorkers(),
            CutDialer(relay),
        )
        health.status = Status.running
        async with rpc(relay.address) as comm:
            run = GoingRun(health)
            parts = {"health": health, "joined": joined, "run": run, "pause_seconds": 0.05}
            watched = SchedulerConnection(dialer, attached(boot=1), comm, **parts)
            replacements = []
            following = asyncio.create_task(follow(watched, joined, replacements))
            await eventually_async(lambda: joined.scheduler_id is not None or following.done())
            try:
                yield SimpleNamespace(
                    watched=watched,
                    health=health,
                    joined=joined,
                    dialer=dialer,
                    relay=relay,
                    scheduler=scheduler,
                    replaced=replacements,
                )
            finally:
                health.status = Status.closing
                relay.cut()
                # Closing waits for it to end.
                await asyncio.wait_for(following, HANG_SECONDS)


def test_a_cut_connection_is_made_again_and_shows_who_joined_meanwhile():
    async def main():
        async with watching() as on:
            on.relay.cut()
            await eventually_async(lambda: on.health.unreachable is not None)
            with pytest.raises(SchedulerUnreachable):
                on.health.check()
            async with Worker(on.scheduler.address, name="i-1"):
                assert on.joined.all_names == []
                on.relay.mend()
                await eventually_async(lambda: on.joined.all_names == ["i-1"])
                on.health.check()
                async with Worker(on.scheduler.address, name="i-2"):
                    await eventually_async(lambda: set(on.joined.all_names) == {"i-1", "i-2"})

    asyncio.run(main())


def test_an_object_that_is_left_open_is_silent_after_the_end(caplog, monkeypatch):
    monkeypatch.setattr(connection, "_PUBLISH_SECONDS", 0.01)

    async def main():
        async with watching() as on:
            telling = asyncio.create_task(on.watched.publish(lambda: {"name": "etl"}))
            known = on.scheduler.task_metadata
            await eventually_async(lambda: known.get("cluster-manager-info") == {"name": "etl"})
            on.dialer.found = ClusterStopped("it is stopped", cluster="etl")
            on.relay.cut()
            await asyncio.wait_for(telling, HANG_SECONDS)
            assert on.health.ended is on.dialer.found

    asyncio.run(main())
    assert [each.message for each in caplog.records if each.exc_info] == []
    # Dask's own would go on, and log a traceback.
    assert Cluster._sync_cluster_info is not SpecCluster._sync_cluster_info


def test_a_scheduler_that_hangs_while_it_is_connected_is_told_until_it_answers_again(
    caplog, monkeypatch
):
    monkeypatch.setattr(connection, "_PUBLISH_SECONDS", 0.01)

    async def main():
        async with watching() as on:
            on.watched.silent_seconds = 0.3
            telling = asyncio.create_task(on.watched.publish(lambda: {"name": "etl"}))
            await eventually_async(lambda: "cluster-manager-info" in on.scheduler.task_metadata)
            on.health.check()
            # As a host that hangs: its kernel keeps the connections, and nothing is answered.
            on.relay.flows.clear()
            await eventually_async(lambda: on.health.unreachable is not None)
            with pytest.raises(SchedulerUnreachable, match="hasn't answered since") as caught:
                on.health.check()
            assert "on instance i-1, running according to AWS" in str(caught.value)
            assert "terradask stop etl, then terradask start etl" in str(caught.value)
            await asyncio.sleep(1.0)
            # Counted here: a busy machine may be silent again afterwards.
            warned = [each for each in caplog.records if "hasn't answered" in each.message]
            on.relay.flows.set()
            await eventually_async(lambda: on.health.unreachable is None)
            on.health.status = Status.closing
            await asyncio.wait_for(telling, HANG_SECONDS)
            return len(warned)

    assert asyncio.run(main()) == 1


def test_a_cluster_that_aws_ends_while_its_scheduler_hangs_is_told_as_ended(monkeypatch):
    monkeypatch.setattr(connection, "_PUBLISH_SECONDS", 0.01)

    async def main():
        async with watching() as on:
            on.watched.silent_seconds = 0.1
            telling = asyncio.create_task(on.watched.publish(lambda: {"name": "etl"}))
            await eventually_async(lambda: "cluster-manager-info" in on.scheduler.task_metadata)
            on.relay.flows.clear()
            await eventually_async(lambda: on.health.unreachable is not None)
            on.watched.run.over = ClusterStopped("at zero", cluster="etl", reason="by the watchdog")
            # Its connection is still there.
            await asyncio.wait_for(telling, HANG_SECONDS)
            with pytest.raises(ClusterStopped, match="at zero"):
                on.health.check()
            on.relay.flows.set()

    asyncio.run(main())


def test_a_scheduler_that_was_replaced_is_told_as_such():
    async def main():
        async with watching() as on:
            on.dialer.found = attached(boot=2)
            on.relay.cut()
            on.relay.mend()
            await eventually_async(lambda: on.health.ended is not None)
            with pytest.raises(SchedulerReplaced, match="i-2, boot 2"):
                on.health.check()
            await eventually_async(lambda: on.replaced == [on.dialer.found])

    asyncio.run(main())


def test_another_process_at_the_same_address_is_a_replacement_too():
    async def main():
        async with (
            watching() as on,
            Scheduler(port=0, dashboard_address=":0", host="127.0.0.1") as other,
        ):
            on.relay.target = other.address
            on.relay.cut()
            on.relay.mend()
            await eventually_async(lambda: on.health.ended is not None)
            assert isinstance(on.health.ended, SchedulerReplaced)

    asyncio.run(main())


def test_a_run_that_is_over_is_told_as_such():
    async def main():
        async with watching() as on:
            on.dialer.found = ClusterStopped("it was stopped", cluster="etl")
            on.relay.cut()
            await eventually_async(lambda: on.health.ended is not None)
            with pytest.raises(ClusterStopped):
                on.health.check()

    asyncio.run(main())


def test_a_cluster_that_is_closed_meanwhile_looks_no_further():
    async def main():
        async with watching() as on:
            on.relay.cut()
            await eventually_async(lambda: on.health.unreachable is not None)
        # What follows has ended, or leaving the block would have failed.
        assert on.health.ended is None

    asyncio.run(main())


class BrokenScheduler:
    """Ends its connection when it is called."""

    async def terradask_command(self, **_):
        raise CommClosedError("cut")


@pytest.mark.parametrize("stopped", [True, False])
def test_a_call_without_an_answer_says_so_unless_the_cluster_is_over(stopped):
    health = Health("etl")
    health.status = Status.running

    class Run:
        async def note_if_over(self):
            if stopped:
                health.record_end(ClusterStopped("it is stopped", cluster="etl"))

    async def main():
        called = SchedulerConnection(
            None,
            attached(boot=1),
            BrokenScheduler(),
            health=health,
            joined=JoinedWorkers(),
            run=Run(),
        )
        with pytest.raises(ClusterStopped if stopped else CommClosedError):
            await called.set_keepalive("30s")

    asyncio.run(main())
