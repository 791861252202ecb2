"""A cluster that fails to start is taken back, whatever else fails, and the first error is the one that is told."""

import asyncio
import re
import time
from types import SimpleNamespace

import pytest
from distributed.deploy.spec import SpecCluster

from terradask import Cluster
from terradask._aws.rate_limit import RateLimiter
from terradask._dask import leaving, lifecycle
from terradask.errors import ClusterClosed, ClusterEnded


class FakeProvisioner:
    """Provisions nothing, or waits until it is cancelled."""

    def __init__(self, request, progress):
        self.undone = []
        self.cancelled = False
        self.waits = False

    def run(self):
        while self.waits:
            if self.cancelled:
                raise InterruptedError("cancelled")
            time.sleep(0.01)
        return SimpleNamespace(attachment=None, settings={}, origin="created")

    def cancel(self):
        self.cancelled = True

    def undo_after(self, error):
        self.undone.append(error)


@pytest.fixture(autouse=True)
def _fake(monkeypatch):
    monkeypatch.setattr(lifecycle, "Provisioner", FakeProvisioner)


def failing(error):
    async def fail(*_):
        raise error

    return fail


def test_a_disconnect_that_fails_neither_hides_the_error_nor_keeps_the_cluster(monkeypatch):
    first = ValueError("can't attach")
    monkeypatch.setattr(Cluster, "_attach", failing(first))
    monkeypatch.setattr(Cluster, "_disconnect", failing(OSError("can't disconnect")))

    async def main():
        cluster = Cluster(name="etl", asynchronous=True)
        with pytest.raises(ValueError, match="can't attach"):
            await cluster
        assert cluster._provisioner.undone == [first]
        assert cluster.status.name == "closed"
        assert cluster._pool._shutdown

    asyncio.run(main())


def test_closing_while_it_is_being_made_takes_it_back_and_waits():
    async def main():
        cluster = Cluster(name="etl", asynchronous=True)
        cluster._provisioner.waits = True
        starting = asyncio.ensure_future(cluster._start())
        await asyncio.sleep(0.05)
        await asyncio.wait_for(cluster.close(), 5)
        assert cluster._provisioner.cancelled
        assert cluster.status.name == "closed"
        with pytest.raises(InterruptedError):
            await starting

    asyncio.run(main())


def test_closing_while_it_waits_for_workers_ends_it_once(monkeypatch):
    ended = []
    monkeypatch.setattr(leaving, "end_cluster", lambda *_: ended.append(True))

    async def attach(self, provisioned):
        self.status = lifecycle.Status.running
        descriptor = SimpleNamespace(workers_per_host=1)
        deployment = SimpleNamespace(name="etl", descriptor=descriptor, objects=None, limiter=RateLimiter(), current_run=lambda: None)
        attachment = SimpleNamespace(run=SimpleNamespace(run_id="r1"))
        self._provisioned = SimpleNamespace(workspace=None, deployment=deployment, attachment=attachment, origin="created")
        self.shutdown_on_close = True
        await self._wait_for_workers(1)

    monkeypatch.setattr(Cluster, "_attach", attach)

    async def main():
        cluster = Cluster(name="etl", asynchronous=True)
        starting = asyncio.ensure_future(cluster._start())
        while cluster.status.name != "running":
            await asyncio.sleep(0.01)
        await asyncio.wait_for(cluster.close(), 5)
        with pytest.raises(InterruptedError):
            await starting
        assert (ended, cluster._provisioner.undone) == ([True], [])

    asyncio.run(main())


def test_closing_leaves_alone_what_somebody_has_started_anew(monkeypatch):
    ended = []
    monkeypatch.setattr(leaving, "end_cluster", lambda *_: ended.append(True))
    now = SimpleNamespace(run_id="r1")

    async def attach(self, provisioned):
        self.status = lifecycle.Status.running
        deployment = SimpleNamespace(
            name="etl",
            descriptor=SimpleNamespace(workers_per_host=1),
            current_run=lambda: now,
            why_stopped=lambda run_id: ClusterEnded("gone", reason="idle"),
        )
        run = SimpleNamespace(run=SimpleNamespace(run_id="r1"))
        self._provisioned = SimpleNamespace(workspace=None, deployment=deployment, attachment=run, origin="created")
        self.shutdown_on_close = True

    monkeypatch.setattr(Cluster, "_attach", attach)

    async def main():
        async with Cluster(name="etl", asynchronous=True) as cluster:
            await cluster._find_whether_over()
            now.run_id = "r2"
            await cluster._find_whether_over()
            for use in (cluster.scale, cluster.adapt, cluster.get_client, lambda: cluster.scale(2)):
                with pytest.raises(ClusterEnded) as caught:
                    use()
                assert caught.value.reason == "idle"
            with pytest.raises(ClusterEnded):
                await cluster.set_keepalive("30s")
            with pytest.raises(ClusterEnded):
                await cluster.wait_for_workers(1)
        assert not ended
        now.run_id = "r1"
        async with Cluster(name="etl", asynchronous=True) as cluster:
            await cluster._find_whether_over()
            cluster._check_usable()
        assert ended == [True]

    asyncio.run(main())


def test_an_error_before_there_is_a_loop_is_told(monkeypatch):
    def fail(self, **_):
        raise RuntimeError("no event loop")

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


def test_a_closed_cluster_scales_no_more():
    async def main():
        cluster = Cluster(name="etl", asynchronous=True)
        await cluster.close()
        for scale in (lambda: cluster.scale(1), lambda: cluster.adapt(maximum=2)):
            with pytest.raises(ClusterClosed, match="'etl' is closed"):
                scale()

    asyncio.run(main())


@pytest.fixture
def attached(monkeypatch):
    """What is done to the deployment of a cluster that was made here; clusters attach to it without any host."""
    done = []
    monkeypatch.setattr(leaving, "end_cluster", lambda *_: done.append("destroyed"))

    async def attach(self, provisioned):
        self.status = lifecycle.Status.running
        deployment = SimpleNamespace(current_run=lambda: None, stop=lambda: done.append("stopped"))
        self._provisioned = SimpleNamespace(workspace=None, deployment=deployment, origin="created")

    monkeypatch.setattr(Cluster, "_attach", attach)
    return done


def test_stopping_keeps_the_deployment_of_a_cluster_that_was_made_here(attached):
    async def main():
        cluster = await Cluster(name="etl", asynchronous=True)
        await cluster.stop()
        assert (attached, cluster.status.name) == (["stopped"], "closed")
        await cluster.close()
        await cluster.shutdown()
        with pytest.raises(ClusterClosed):
            cluster.stop()
        assert attached == ["stopped"]

    asyncio.run(main())


def test_an_object_that_left_its_cluster_running_says_that_it_cannot_shut_it_down(attached):
    async def main():
        cluster = await Cluster(name="etl", asynchronous=True, shutdown_on_close=False)
        await cluster.close()
        for _ in range(2):
            with pytest.raises(ClusterClosed, match=re.escape("Cluster.from_name('etl').shutdown()")):
                cluster.shutdown()
        assert attached == []

    asyncio.run(main())


def test_what_aws_is_being_told_is_waited_for():
    async def main():
        cluster = Cluster(name="etl", asynchronous=True)
        cluster._workers = SimpleNamespace(sets={"workers": SimpleNamespace(roster=["i-1"]), "gpu": SimpleNamespace(roster=["i-2"])})
        assert cluster._wanted() == 2
        cluster._untold_targets, cluster._targets = {"workers": 3}, {"gpu": 2}
        assert cluster._wanted() == 5
        await cluster.close()

    asyncio.run(main())
