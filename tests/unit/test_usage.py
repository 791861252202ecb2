"""What workers use, from a scheduler's state to the sums in the bucket."""

from __future__ import annotations

import gzip
import json
import threading
from dataclasses import astuple
from types import SimpleNamespace
from typing import Any

import pytest
from distributed import Client, Scheduler, Worker

from terradask_host.agent.join_watchdog import JoinWatchdog
from terradask_host.agent.kept_reports import KeptUsage
from terradask_host.preload.usage import UsageWatch
from terradask_host.rules.autoscaling_groups import Group, Member
from terradask_host.usage import HostUsage, RunUsage

from ..waiting import eventually_async
from .host_facts import cluster_document

GIB = 2.0**30


def worker(name: str = "i-1", **facts: Any) -> Any:
    own = {
        "name": name,
        "nthreads": 4,
        "memory_limit": 8 * GIB,
        "metrics": {"cpu": 100.0, "memory": 2 * GIB},
        "processing": {},
        "long_running": set(),
        "nbytes": 0,
        "resources": {},
        "status": SimpleNamespace(name="running"),
    }
    return SimpleNamespace(**{**own, **facts})


class Watched:
    """A watch over workers, with a clock of its own."""

    def __init__(self, *workers: Any, has_jobs: bool = False, queued: int = 0) -> None:
        self.now, self.has_jobs, self.cpu = 0.0, has_jobs, 5.0
        self.reports: list[dict[str, Any]] = []
        monitor = SimpleNamespace(update=lambda: None, recent=lambda: {"cpu": self.cpu})
        self.scheduler = SimpleNamespace(
            workers=dict(enumerate(workers)), queued=range(queued), monitor=monitor
        )
        self.watch = UsageWatch(
            self.scheduler,
            lambda event, **facts: self.reports.append({"event": event, **facts}),
            lambda: self.has_jobs,
            lambda: self.now,
        )

    def sample(self, seconds: float) -> None:
        self.now += seconds
        self.watch.sample()

    def hosts(self) -> dict[str, HostUsage]:
        self.watch.flush()
        # As the host program gets it.
        last = json.loads(json.dumps(self.reports[-1]))
        return {row[-2]: HostUsage.read(row) for row in last["hosts"]}


def test_time_is_added_up_by_host_and_the_largest_memory_counts() -> None:
    one, other = worker(), worker("i-1-1", metrics={"cpu": 50.0, "memory": 4 * GIB})
    watched = Watched(one, other, worker("i-2", processing=dict.fromkeys(range(5))))
    watched.sample(10)
    one.metrics["memory"] = 6 * GIB
    one.status = SimpleNamespace(name="paused")
    watched.cpu = 95.0
    watched.sample(5)
    hosts = watched.hosts()
    assert hosts["i-1"] == HostUsage(
        host="i-1",
        seconds=15,
        workers=2,
        threads=8,
        thread_seconds=8 * 15,
        busy_thread_seconds=1.5 * 15,
        paused_seconds=5,
        memory_limit_bytes=16 * GIB,
        memory_share_max=0.75,
        memory_share_seconds=0.5 * 10 + 0.75 * 5,
    )
    waiting = hosts["i-2"]
    assert (waiting.waiting_seconds, waiting.waiting_busy_thread_seconds) == (15, 15)
    assert waiting.was_used
    assert watched.reports[-1]["seconds"] == 15
    assert watched.reports[-1]["scheduler_busy_seconds"] == 5
    # What was reported isn't reported again.
    watched.watch.flush()
    assert len(watched.reports) == 1


def test_tasks_wait_in_the_queue_or_at_their_worker_but_not_outside_its_threads() -> None:
    five = dict.fromkeys(range(5))
    assert Watched(worker(), queued=1).scheduler.queued
    queued = Watched(worker(), queued=1)
    queued.sample(10)
    assert queued.hosts()["i-1"].waiting_seconds == 10
    for facts in (
        {"processing": dict.fromkeys(range(4))},
        {"processing": five, "long_running": {1}},
    ):
        watched = Watched(worker(**facts))
        watched.sample(10)
        assert watched.hosts()["i-1"].waiting_seconds == 0


def test_jobs_are_seen_as_use_and_their_time_does_not_count() -> None:
    watched = Watched(worker(processing={1: 1}), has_jobs=True)
    watched.sample(600)
    watched.has_jobs = False
    watched.scheduler.workers[0].processing = {}
    watched.sample(60)
    host = watched.hosts()["i-1"]
    assert (host.seconds, host.was_used) == (60, True)


def test_the_worker_beside_the_scheduler_is_no_host_of_workers() -> None:
    watched = Watched(worker("scheduler-i-9"), worker())
    watched.sample(10)
    assert watched.hosts().keys() == {"i-1"}


def test_what_a_worker_sends_can_be_anything() -> None:
    for metrics in ({"cpu": "x", "memory": None}, {"cpu": float("nan")}, {"cpu": -5, "memory": []}):
        watched = Watched(worker(metrics=metrics))
        watched.sample(10)
        assert watched.hosts()["i-1"].busy_thread_seconds == 0
    # More than its threads can work.
    watched = Watched(worker(metrics={"cpu": 1e30}))
    watched.sample(10)
    assert watched.hosts()["i-1"].busy_thread_seconds == 40


async def test_daskss_own_workers_are_read() -> None:
    reports: list[dict[str, Any]] = []
    async with (
        Scheduler(host="127.0.0.1", port=0, dashboard_address="127.0.0.1:0") as scheduler,
        Worker(
            scheduler.address, name="i-1", nthreads=2, memory_limit="64 GiB", resources={"GPU": 1}
        ),
        Client(scheduler.address, asynchronous=True) as client,
    ):
        watch = UsageWatch(scheduler, lambda _, **facts: reports.append(facts))
        kept = client.submit(bytes, 100)
        await kept
        await eventually_async(
            lambda: any("memory" in each.metrics for each in scheduler.workers.values())
        )
        await watch.before_close()
        del kept
    (row,) = reports[0]["hosts"]
    host = HostUsage.read(list(row))
    assert (host.host, host.threads, host.was_used, host.has_gpus) == ("i-1", 2, True, True)
    assert 0 < host.memory_share_max < 1
    assert host.waiting_seconds == 0


# ---- the host program ----------------------------------------------------------------------------


class Bucket:
    def __init__(self) -> None:
        self.written: list[tuple[str, RunUsage]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.failure: Exception | None = None

    def write_report(self, name: str, content: bytes) -> None:
        self.gate.wait(20)
        if self.failure:
            raise self.failure
        self.written.append((name, RunUsage.read(json.loads(gzip.decompress(content)))))


def kept(bucket: Bucket, log: list[str], interval_seconds: float = 300.0) -> KeptUsage:
    usage = KeptUsage(
        bucket,  # type: ignore[arg-type]
        "r1",
        group_of={"i-1": "workers", "i-2": "workers", "i-3": "big"}.get,
        interval_seconds=interval_seconds,
        log=log.append,
    )
    usage.start(1)
    return usage


def facts(*hosts: HostUsage, seconds: float = 60.0) -> dict[str, Any]:
    return {"seconds": seconds, "hosts": [list(astuple(host)) for host in hosts]}


def test_reports_are_added_up_by_group_and_written_once_an_interval() -> None:
    bucket, log = Bucket(), list[str]()
    usage = kept(bucket, log)
    usage.take(
        facts(
            HostUsage(host="i-1", seconds=60, memory_share_max=0.5, was_used=True),
            HostUsage(host="i-9", seconds=60),
        )
    )
    usage.wait(20)
    usage.take(
        facts(
            HostUsage(host="i-1", seconds=60, memory_share_max=0.25),
            HostUsage(host="i-2", seconds=60),
        )
    )
    usage.take(facts(HostUsage(host="i-1", seconds=60), HostUsage(host="i-3", seconds=60)))
    assert len(bucket.written) == 1
    usage.wait(20)
    assert [name for name, _ in bucket.written] == ["r1/1.usage.json.gz"] * 2
    last = bucket.written[-1][1]
    assert last.seconds == 180
    # An instance that no group has isn't the cluster's.
    assert last.groups.keys() == {"workers", "big"}
    group = last.groups["workers"]
    assert (group.hosts, group.unused_hosts, group.unused_host_seconds) == (2, 1, 60)
    assert (group.seconds, group.memory_share_max) == (240, 0.5)
    assert log == []


def test_a_new_scheduler_starts_anew_and_the_rest_of_the_old_one_is_written() -> None:
    bucket = Bucket()
    usage = kept(bucket, [])
    usage.take(facts(HostUsage(host="i-1", seconds=60)))
    usage.wait(20)
    usage.take(facts(HostUsage(host="i-1", seconds=60)))
    usage.start(2)
    usage.take(facts(HostUsage(host="i-2", seconds=60)))
    usage.wait(20)
    assert [(name, each.seconds) for name, each in bucket.written] == [
        ("r1/1.usage.json.gz", 60),
        ("r1/1.usage.json.gz", 120),
        ("r1/2.usage.json.gz", 60),
    ]


def test_what_can_not_be_read_or_written_is_logged_once() -> None:
    bucket, log = Bucket(), list[str]()
    usage = kept(bucket, log, interval_seconds=0.0)
    for damaged in ({}, {"hosts": [["i-1"]]}, {"hosts": [[*astuple(HostUsage())[:-2], 1, False]]}):
        usage.take(damaged)
    assert log == ["the use of workers can't be read"]
    bucket.failure = PermissionError("AccessDenied")
    for _ in range(2):
        usage.take(facts(HostUsage(host="i-1", seconds=60)))
        usage.wait(20)
    assert len(log) == 2
    assert "AccessDenied" in log[1]


def test_a_silent_bucket_holds_nothing_up() -> None:
    bucket = Bucket()
    usage = kept(bucket, [], interval_seconds=0.0)
    bucket.gate.clear()
    for _ in range(3):
        usage.take(facts(HostUsage(host="i-1", seconds=60)))
    usage.wait(0.01)
    bucket.gate.set()
    usage.wait(20)
    assert bucket.written[-1][1].seconds == 180


@pytest.mark.parametrize("ending", [(), ("i-1",)])
def test_the_watchdog_remembers_the_groups_of_hosts(ending: tuple[str, ...]) -> None:
    groups = [Group("workers", 1, 4, (Member("i-1", "InService"),))]
    host = SimpleNamespace(
        cluster=cluster_document({}, {}, worker_group="workers"),
        groups=SimpleNamespace(of_workers=lambda: groups),
        log=SimpleNamespace(info=lambda _: None),
    )
    watchdog = JoinWatchdog(host, on_given_up=lambda _: None)  # type: ignore[arg-type]
    watchdog.instance_ids()
    if ending:
        groups.clear()
        watchdog.instance_ids()
    assert watchdog.worker_group_of("i-1") == "workers"
    assert watchdog.worker_group_of("i-2") is None
