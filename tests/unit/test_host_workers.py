"""This client counts hosts where the scheduler counts workers."""

import asyncio
import pickle
from types import SimpleNamespace

from distributed.deploy.adaptive import Adaptive

from terradask._dask.adaptive import HostCounting, adaptive_for
from terradask._dask.host_workers import (
    host_of,
    hosts_at,
    hosts_to_close,
    is_extra,
    whole_hosts,
)
from terradask_host.structure import worker_names


def test_the_names_of_a_hosts_workers_begin_with_its_own():
    assert [host_of(name) for name in ("i-0a", "i-0a-1", "i-0a-12", "pending-3", 7)] == [
        "i-0a",
        "i-0a",
        "i-0a",
        "pending-3",
        "7",
    ]


def test_the_names_of_a_hosts_workers_are_those_that_it_gives():
    for workers_per_host in (1, 3):
        names = worker_names("i-0a", workers_per_host)
        assert names == ["i-0a", "i-0a-1", "i-0a-2"][:workers_per_host]
        assert {host_of(name) for name in names} == {"i-0a"}


def test_a_host_is_idle_when_all_of_its_workers_are():
    reported = {
        "i-0a": {},
        "i-0a-1": {"managed_bytes": 8},
        "i-0b": {"managed_bytes": 0, "task_counts": {"executing": 0}},
        "i-0c": {"task_counts": {"executing": 1}},
        "scheduler-i-0d": {},
    }

    class Scheduler:
        async def identity(self, n_workers):
            assert n_workers == -1
            workers = {name: {"name": name, "metrics": told} for name, told in reported.items()}
            return {"workers": workers}

    assert asyncio.run(hosts_at(Scheduler())) == {"i-0a": False, "i-0b": True, "i-0c": False}


def test_a_host_has_joined_when_all_of_its_workers_have():
    names = ["i-0a", "i-0a-1", "i-0b-1"]
    assert whole_hosts(names, 2) == {"i-0a"}
    assert whole_hosts(names, 1) == {"i-0a", "i-0b"}


class Scheduler:
    """Answers what it is told to, and writes down what it was asked."""

    def __init__(self, *, target=0, close=()):
        self.target, self.close = target, list(close)
        self.asked = []

    async def workers_to_close(self, **kwargs):
        self.asked.append(kwargs)
        return self.close

    async def adaptive_target(self, target_duration=None):
        return self.target


def test_the_scheduler_is_asked_for_workers_by_their_host():
    scheduler = Scheduler(close=["i-0b", "i-0b-1", "i-0a-1", "i-0a"])
    assert asyncio.run(hosts_to_close(scheduler, 2)) == ["i-0b", "i-0a"]
    asyncio.run(hosts_to_close(scheduler))
    first, second = scheduler.asked
    assert first["attribute"] == "name"
    # It counts workers: hosts may have any number.
    assert first["n"] > 10_000 * 128
    # None: as many as are idle.
    assert second["n"] is None
    # The scheduler's host has no terradask: the key must not need it.
    assert b"terradask" not in first["key"]
    assert pickle.loads(first["key"])(SimpleNamespace(host="10.0.0.7")) == "10.0.0.7"


def test_no_more_hosts_are_closed_than_were_asked_for():
    scheduler = Scheduler(close=["i-0b-0", "i-0b-1", "i-0b-2", "i-0b-3", "i-0a-0"])
    assert asyncio.run(hosts_to_close(scheduler, 1)) == ["i-0b"]
    assert asyncio.run(hosts_to_close(scheduler, 0)) == []


def target(scheduler, names, workers_per_host=2):
    class Tested(adaptive_for(Adaptive, workers_per_host=workers_per_host, extra_worker=True)):
        def __init__(self):
            observed = {host_of(name) for name in names if not is_extra(name)}
            self.cluster = SimpleNamespace(
                observed=observed, worker_names=lambda: names, scheduler_comm=scheduler
            )
            self.target_duration = "3m"

        def stop(self, reason="unknown"):
            pass

    return asyncio.run(Tested().target())


def test_one_worker_a_host_needs_no_translation():
    assert not issubclass(adaptive_for(Adaptive), HostCounting)
    several = adaptive_for(Adaptive, workers_per_host=2)
    assert issubclass(several, HostCounting)
    assert several.__name__ == "Adaptive"


def test_as_many_hosts_are_wanted_as_the_workers_need():
    assert target(Scheduler(target=7), ["i-0a", "i-0b"]) == 4
    assert target(Scheduler(target=4), ["i-0a", "i-0b"]) == 2
    assert target(Scheduler(target=1), []) == 1


def test_a_host_is_superfluous_when_all_of_its_workers_are():
    # One idle worker on each of two hosts is no idle host.
    assert target(Scheduler(target=2, close=[]), ["i-0a", "i-0b"]) == 2
    assert target(Scheduler(target=2, close=["i-0b", "i-0b-1"]), ["i-0a", "i-0b"]) == 1


def test_hosts_count_whose_class_makes_a_worker_for_each_gpu():
    assert issubclass(adaptive_for(Adaptive, makes_several=True), HostCounting)
    names = [f"i-0a-{number}" for number in range(4)]
    assert target(Scheduler(target=8), names, workers_per_host=1) == 2
    assert target(Scheduler(target=2, close=[]), names, workers_per_host=1) == 1
    assert target(Scheduler(target=1, close=names), names, workers_per_host=1) == 0


def test_the_worker_beside_the_scheduler_is_not_counted():
    names = ["i-0a", "i-0b", "scheduler-i-0c"]
    assert target(Scheduler(target=3), names, workers_per_host=1) == 2
    assert target(Scheduler(target=4), names, workers_per_host=1) == 3
    assert target(Scheduler(target=2, close=["i-0b"]), names, workers_per_host=1) == 1
    assert target(Scheduler(target=1), ["scheduler-i-0c"], workers_per_host=1) == 0
