"""What fails while a cluster is opened is taken back; what is left is ended as it is to be."""

import asyncio
import os
import re
import threading
import time
from types import SimpleNamespace

import pytest
from distributed.core import Status
from distributed.deploy.spec import SpecCluster

from terradask import Cluster
from terradask._aws.rate_limit import RateLimiter
from terradask._dask.health import Health, RunCheck
from terradask._dask.host_workers import JoinedWorkers
from terradask._dask.lifecycle import (
    _BEING_MADE,
    _OPEN,
    Lifecycle,
    end_open_clusters,
    finish_calls,
)
from terradask._dask.provision import Provisioned, Provisioner
from terradask._dask.request import Request
from terradask._dask.rollback import note_left_behind, note_rolled_back
from terradask._dask.threads import _THREADS, Threads
from terradask._dask.waiting import WorkerWaiter
from terradask._observe.status import HostReports
from terradask.errors import ClusterClosed, ClusterStopped
from terradask_host.documents import Run

from ..waiting import HANG_SECONDS, eventually_async


class Deployed:
    """A cluster that was made here, and what is done to it; its run is the client's unless it is
    said otherwise.
    """

    def __init__(self):
        self.done = []
        self.run_id = "r1"
        self.bucket = "bucket"
        self.name = "etl"
        self.descriptor = SimpleNamespace(workers_per_host=1)
        self.objects = None
        self.limiter = RateLimiter()

    def current_run(self):
        return SimpleNamespace(run_id=self.run_id)

    def zero_run(self, run_id):
        return self._is_done("at zero", run_id)

    def stop_run(self, run):
        self._is_done("stopped", run.run_id)

    def _is_done(self, what, run_id):
        if run_id == self.run_id:
            self.done.append(what)
        return run_id == self.run_id

    def why_stopped(self, run_id):
        return ClusterStopped("gone", reason="idle")

    def destroy_cluster(self, name):
        self.done.append("destroyed")

    def note_closing(self):
        self.done.append("marked")


class CancellableProvisioner:
    """Finds the cluster, or waits until it is cancelled."""

    def __init__(self, deployed, *, waits=False, origin="created", name="etl"):
        self.name = name
        self.undone = []
        self.cancelled = False
        self._cancelled_by = None
        self._deployed = deployed
        self._waits = waits
        self._origin = origin

    def run(self):
        while self._waits:
            if self.cancelled:
                error = InterruptedError("cancelled")
                self.roll_back_after(self._cancelled_by or error)
                raise error
            time.sleep(0.01)
        attachment = SimpleNamespace(run=Run("r1", "", "arn", "v1", "3.11", {}, 2))
        return Provisioned(self._deployed, self._deployed, attachment, self._origin, {})

    def cancel(self, error=None):
        self._cancelled_by, self.cancelled = error, True

    def cancel_rollback(self):
        self.undone.append("cut short")

    def note_unfinished(self, error):
        note_left_behind(error, self.name, "created", error)

    def roll_back_after(self, error):
        self.undone.append(error)
        note_rolled_back(error, self.name, "created")


class Opened:
    """A lifecycle with the parts around it, and how it attaches and disconnects."""

    def __init__(
        self, *, waits=False, shutdown_on_close=None, attach=None, attached_to=None, name="etl"
    ):
        self.deployed = Deployed() if attached_to is None else attached_to.deployed
        self.health = Health(name)
        self.health.status = Status.created
        self.threads = Threads()
        origin = "created" if attached_to is None else "attached"
        self.provisioner = CancellableProvisioner(
            self.deployed, waits=waits, origin=origin, name=name
        )
        self.said = []
        request = Request(name, shutdown_on_close=shutdown_on_close, attach=attach)
        self.lifecycle = Lifecycle(
            request,
            self.provisioner,
            self.health,
            self.threads,
            on_exit=self.leave,
        )

    def leave(self):
        self.deployed.done.append("leaves")
        return lambda: self.deployed.done.append("left")

    async def attach(self, provisioned):
        self.health.status = Status.running
        self.lifecycle.register()

    async def disconnect(self):
        pass

    async def open(self):
        await self.lifecycle.open(self.attach, self.disconnect)

    async def close(self):
        await self.lifecycle.close(self.disconnect, self.disconnect, self.said.append)


def failing(error):
    async def fail(*_):
        raise error

    return fail


def test_a_disconnect_that_fails_neither_hides_the_error_nor_keeps_the_cluster():
    first = ValueError("can't attach")

    async def main():
        opened = Opened()
        opened.attach, opened.disconnect = failing(first), failing(OSError("can't disconnect"))
        with pytest.raises(ValueError, match="can't attach"):
            await opened.open()
        assert opened.provisioner.undone == [first]
        assert opened.health.status == Status.closed
        with pytest.raises(InterruptedError):
            opened.threads.call(print)

    asyncio.run(main())


def test_closing_while_it_is_being_made_takes_it_back_and_waits():
    async def main():
        opened = Opened(waits=True)
        opening = asyncio.ensure_future(opened.open())
        await asyncio.sleep(0.05)
        await asyncio.wait_for(opened.close(), HANG_SECONDS)
        assert opened.provisioner.cancelled
        assert opened.health.status == Status.closed
        with pytest.raises(InterruptedError):
            await opening

    asyncio.run(main())


def test_the_end_of_the_process_takes_back_what_a_coroutine_makes():
    async def main():
        opened = Opened(waits=True)
        opening = asyncio.ensure_future(opened.open())
        await asyncio.sleep(0.05)
        finish_calls()
        with pytest.raises(InterruptedError):
            await opening
        (error,) = opened.provisioner.undone
        assert isinstance(error, SystemExit)
        assert opened.lifecycle not in _BEING_MADE

    asyncio.run(main())


def test_the_end_of_the_process_ends_what_a_coroutine_attaches_to():
    async def main():
        opened = Opened()
        opened.attach = lambda _provisioned: asyncio.sleep(HANG_SECONDS)
        opening = asyncio.ensure_future(opened.open())
        await eventually_async(lambda: opened.lifecycle.provisioned is not None)
        end_open_clusters()
        assert {"at zero", "marked"} <= set(opened.deployed.done)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening

    asyncio.run(main())


def test_closing_while_it_waits_for_workers_ends_it_once():
    async def main():
        opened = Opened()
        pool = SimpleNamespace(
            shortfall=None,
            plan=set(),
            deployment=opened.deployed,
            run=SimpleNamespace(run_id="r1"),
            joined=JoinedWorkers(),
            health=opened.health,
            call=opened.threads.call,
        )
        waiter = WorkerWaiter(pool, HostReports(opened.deployed.objects, "r1"))

        async def attach(provisioned):
            opened.health.status = Status.running
            await waiter.wait(1)

        opened.attach = attach
        opening = asyncio.ensure_future(opened.open())
        await eventually_async(lambda: opened.health.is_running)
        await asyncio.wait_for(opened.close(), HANG_SECONDS)
        with pytest.raises(InterruptedError):
            await opening
        assert (opened.deployed.done, opened.provisioner.undone) == (["at zero", "destroyed"], [])

    asyncio.run(main())


@pytest.mark.parametrize(("run_id", "done"), [("r1", ["at zero", "destroyed"]), ("r2", [])])
def test_closing_leaves_alone_what_was_started_anew(run_id, done):
    async def main():
        opened = Opened()
        await opened.open()
        opened.deployed.run_id = run_id
        await opened.close()
        assert opened.deployed.done == done

    asyncio.run(main())


@pytest.mark.parametrize("threads_are_busy", [False, True])
def test_an_interrupted_close_goes_on_ending(threads_are_busy):
    async def main():
        opened, reached, go = Opened(), asyncio.Event(), threading.Event()
        await opened.open()
        if threads_are_busy:
            for _ in range(_THREADS):
                opened.threads.call(go.wait, HANG_SECONDS)

        async def before_end():
            reached.set()
            if not threads_are_busy:
                await asyncio.sleep(HANG_SECONDS)

        closing = asyncio.ensure_future(
            opened.lifecycle.close(opened.disconnect, before_end, opened.said.append)
        )
        await reached.wait()
        await asyncio.sleep(0.05)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        go.set()
        await eventually_async(lambda: opened.deployed.done == ["at zero", "destroyed"])

    asyncio.run(main())


def test_a_run_that_is_over_is_noted_once_with_its_reason():
    async def main():
        opened = Opened()
        await opened.open()
        health = Health("etl")
        health.status = Status.running
        check = RunCheck(opened.deployed, "r1", health, opened.threads.call)
        await check.note_if_over()
        health.check()
        opened.deployed.run_id = "r2"
        for _ in range(2):
            await check.note_if_over()
            with pytest.raises(ClusterStopped) as caught:
                health.check()
            assert caught.value.reason == "idle"
        await opened.close()

    asyncio.run(main())


def test_an_error_before_there_is_a_loop_is_told(monkeypatch):
    def fail(self, **_):
        raise RuntimeError("no event loop")

    monkeypatch.setattr(Provisioner, "run", lambda self: None)
    monkeypatch.setattr(SpecCluster, "__init__", fail)
    with pytest.raises(RuntimeError, match="no event loop"):
        Cluster(name="etl")


def test_a_worker_that_joins_during_a_look_does_no_harm():
    async def main():
        cluster = Cluster(name="etl", asynchronous=True)
        workers = cluster.scheduler_info["workers"] = {}

        class Joining:
            def __str__(self):
                workers[f"tls://10.0.0.{len(workers)}"] = {"name": "i-2"}
                return "i-1"

        workers["tls://10.0.0.0"] = {"name": Joining()}
        assert cluster.observed == {"i-1"}
        await cluster.close()

    asyncio.run(main())


USES = {
    "scale": lambda cluster: cluster.scale(1),
    "scale_up": lambda cluster: cluster.scale_up(1),
    "scale_down": lambda cluster: cluster.scale_down(["i-1"]),
    "adapt": lambda cluster: cluster.adapt(maximum=2),
    "wait_for_workers": lambda cluster: cluster.wait_for_workers(1),
    "get_client": lambda cluster: cluster.get_client(),
    "set_keepalive": lambda cluster: cluster.set_keepalive("30s"),
    "shared_dashboard": lambda cluster: cluster.shared_dashboard,
    "send_private_envs": lambda cluster: cluster.send_private_envs({"A": "1"}),
    "send_credentials": lambda cluster: cluster.send_credentials(),
    "stop": lambda cluster: cluster.stop(),
}


@pytest.mark.parametrize("use", USES.values(), ids=list(USES))
def test_a_closed_cluster_says_so(use):
    async def main():
        cluster = Cluster(name="etl", asynchronous=True)
        await cluster.close()
        with pytest.raises(ClusterClosed, match=re.escape("'etl' is closed")) as caught:
            await use(cluster)
        assert "Cluster(name='etl')" in str(caught.value)
        await cluster.close()
        assert cluster.status == Status.closed

    asyncio.run(main())


def test_stopping_keeps_the_deployment_of_a_cluster_that_was_made_here():
    async def main():
        opened = Opened()
        await opened.open()
        opened.lifecycle.stop()
        await opened.close()
        assert (opened.deployed.done, opened.health.status) == (["stopped"], Status.closed)
        await opened.close()
        opened.lifecycle.shutdown()
        with pytest.raises(ClusterClosed):
            opened.lifecycle.stop()
        assert opened.deployed.done == ["stopped"]

    asyncio.run(main())


async def _opened(*, in_block=False, **arguments):
    opened = Opened(**arguments)
    await opened.open()
    if in_block:
        opened.lifecycle.enter_block()
    return opened


def test_a_notebooks_cell_that_is_run_again_ends_what_its_first_run_made():
    async def main():
        first = await _opened()
        again = await _opened(attached_to=first)
        await again.close()
        assert first.deployed.done == ["at zero", "destroyed"]
        assert not again.said
        await first.close()
        assert first.deployed.done == ["at zero", "destroyed"]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("own", "theirs"),
    [
        ({"shutdown_on_close": False}, {}),
        ({}, {"attach": True}),
        ({}, {"shutdown_on_close": False}),
        ({"in_block": True}, {}),
        ({}, {"in_block": True}),
    ],
    ids=["nobody owns it", "from_name", "it is to run on", "first in a block", "second in one"],
)
def test_what_only_attaches_leaves_the_cluster_running_and_says_so(own, theirs):
    async def main():
        first = await _opened(**own)
        second = await _opened(attached_to=first, **theirs)
        await second.close()
        assert first.deployed.done == []
        assert second.lifecycle.state_when_left == "left running"
        (said,) = second.said
        assert "etl keeps running" in said.text
        assert "terradask stop etl" in said.text
        await first.close()
        assert bool(first.deployed.done) == own.get("shutdown_on_close", True)

    asyncio.run(main())


def test_an_object_that_left_its_cluster_running_says_that_it_cannot_shut_it_down():
    async def main():
        opened = Opened(shutdown_on_close=False)
        await opened.open()
        await opened.close()
        for _ in range(2):
            with pytest.raises(
                ClusterClosed, match=re.escape("Cluster.from_name('etl').shutdown()")
            ):
                opened.lifecycle.shutdown()
        assert opened.deployed.done == []

    asyncio.run(main())


@pytest.mark.parametrize(
    ("run_id", "done"),
    [("r1", ["leaves", "at zero", "marked", "left"]), ("r2", ["leaves", "left"])],
)
def test_at_the_end_of_the_process_a_cluster_that_was_made_here_is_marked_and_quiet(run_id, done):
    async def main():
        opened = Opened()
        await opened.open()
        opened.deployed.run_id = run_id
        opened.lifecycle.end_at_exit(is_zero=opened.lifecycle.zero_at_exit())
        # The groups first: a process that ends may have no time for the rest.
        assert opened.deployed.done == done
        opened.threads.shutdown()

    asyncio.run(main())


def test_a_forked_process_neither_ends_nor_uses_its_parents_cluster():
    opened = Opened()
    asyncio.run(opened.open())
    opened.lifecycle.register()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        told = "nothing"
        try:
            assert not opened.lifecycle.zero_at_exit()
            opened.lifecycle.end_at_exit(is_zero=False)
            assert not opened.deployed.done
            opened.health.check()
        except ClusterClosed as error:
            told = str(error)
        finally:
            os.write(write, told.encode())
            os._exit(0)
    os.close(write)
    try:
        os.waitpid(pid, 0)
        assert "Cluster.from_name('etl')" in os.read(read, 10_000).decode()
        opened.health.check()
        assert opened.health.is_running
    finally:
        os.close(read)
        _OPEN.discard(opened.lifecycle)
        opened.threads.shutdown()
