"""A scheduler's host ends its cluster: idle, without a client, too old, or in place of a host that
could not.
"""

from __future__ import annotations

import datetime
import os
import signal
import time
from collections.abc import Callable

import pytest

from terradask._dask.commands import send
from terradask_host.commands import SetKeepalive

from ...waiting import eventually
from .cluster import Cluster, HostProcess

pytestmark = [
    pytest.mark.simulator,
    pytest.mark.life,
    # Of a client of Dask's that looks for a scheduler which isn't there.
    pytest.mark.filterwarnings(
        "ignore:Exception ignored in. <ssl.SSLSocket:pytest.PytestUnraisableExceptionWarning",
        "ignore:unclosed <ssl.SSLSocket:ResourceWarning",
    ),
]


def living(cluster: Cluster, **life: object) -> Cluster:
    """Let the cluster's run say how long it may live."""
    cluster.start(started_at=now().isoformat(), life=life)
    return cluster


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def wait_ended(cluster: Cluster, scheduler: HostProcess) -> str:
    """Wait until the cluster is over and its groups are at zero; return the reason."""
    assert scheduler.wait_exit() == 0
    report, document = scheduler.report(), cluster.get("scheduler.json")
    assert document is not None
    assert report["state"] == "left"
    assert document["ended"]["reason"] == report["reason"]
    assert (cluster.desired("scheduler"), cluster.desired("workers")) == (0, 0)
    assert f"the cluster is over: {report['reason']}" in scheduler.log
    return str(report["reason"])


def test_an_idle_cluster_ends_and_one_with_work_does_not(lonely: Callable[..., Cluster]) -> None:
    cluster = living(
        lonely(), idle_timeout_seconds=6, idle_timeout_yields=False, destroyed_after=True
    )
    scheduler = cluster.scheduler(timing={"life_poll_seconds": 0.2})
    scheduler.wait_state("running")
    with cluster.client() as client:
        future = client.submit(sum, [1])
        time.sleep(7)
        assert scheduler.report()["state"] == "running"
        future.cancel()
        del future
        eventually(lambda: scheduler.report()["state"] != "running")
    reason = wait_ended(cluster, scheduler)
    assert reason.startswith("idle for 6 seconds, since 20")
    assert reason.endswith("no task, 1 connected")
    assert (cluster.get("closing.json") or {})["reason"] == reason
    # A worker that comes too late knows at once that nobody waits for it.
    worker = cluster.worker(0)
    assert worker.wait_exit() == 0
    assert worker.report()["reason"] == f"the cluster has ended: {reason}"


@pytest.mark.usefixtures("fresh_dask")
def test_without_a_client_a_cluster_lives_as_long_as_it_was_told(
    lonely: Callable[..., Cluster],
) -> None:
    cluster = living(lonely(), no_client_timeout_seconds=None)
    scheduler = cluster.scheduler(timing={"life_poll_seconds": 0.2})
    scheduler.wait_state("running")
    with cluster.client() as client:
        client.sync(send, client.scheduler, "lonely", SetKeepalive(1.5))
        time.sleep(2.5)
        # The scheduler's next process still knows.
        os.killpg(scheduler.dask_pid(), signal.SIGKILL)
        eventually(
            lambda: (cluster.get("scheduler.json") or {}).get("boot") == 2,
            explain=lambda: scheduler.log,
        )
        # The first may have given up: what Dask's client does about a lost connection isn't ours.
        with cluster.client():
            eventually(lambda: scheduler.report()["state"] == "running")
    assert wait_ended(cluster, scheduler).startswith("no client for 1.5 seconds, since 20")


def test_a_lifetime_is_over_whatever_else_is_going_on(lonely: Callable[..., Cluster]) -> None:
    cluster = living(lonely(), max_lifetime_seconds=1, idle_timeout_seconds=None)
    scheduler = cluster.scheduler()
    assert scheduler.wait_exit() == 0
    assert scheduler.report()["reason"].startswith("its lifetime was over at 20")
    assert scheduler.states()[-2:] == ["leaving", "left"]
    assert (cluster.desired("scheduler"), cluster.desired("workers")) == (0, 0)


def test_a_host_in_place_of_one_that_ended_the_cluster_ends_it_again(
    lonely: Callable[..., Cluster],
) -> None:
    cluster = living(lonely())
    ended = {"at": "2026-11-20T06:00:00Z", "reason": "idle for 20 minutes"}
    cluster.put("scheduler.json", document := cluster.address(ended=ended))
    scheduler = cluster.scheduler()
    assert wait_ended(cluster, scheduler) == "idle for 20 minutes"
    assert cluster.get("closing.json") is None
    assert cluster.get("scheduler.json") == document
