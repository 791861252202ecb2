"""This client counts hosts where the scheduler counts workers."""

import asyncio
import pickle
from types import SimpleNamespace

from terradask._dask.host_workers import (
    host_of,
    hosts_at,
    hosts_to_close,
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

    def __init__(self, *, close=()):
        self.close = list(close)
        self.asked = []

    async def workers_to_close(self, **kwargs):
        self.asked.append(kwargs)
        return self.close


def test_the_scheduler_is_asked_for_workers_by_their_host():
    scheduler = Scheduler(close=["i-0b", "i-0b-1", "i-0a-1", "i-0a"])
    assert asyncio.run(hosts_to_close(scheduler, 2)) == ["i-0b", "i-0a"]
    (first,) = scheduler.asked
    assert first["attribute"] == "name"
    # It counts workers: hosts may have any number.
    assert first["n"] > 10_000 * 128
    # The scheduler's host has no terradask: the key must not need it.
    assert b"terradask" not in first["key"]
    assert pickle.loads(first["key"])(SimpleNamespace(host="10.0.0.7")) == "10.0.0.7"


def test_no_more_hosts_are_closed_than_were_asked_for():
    scheduler = Scheduler(close=["i-0b-0", "i-0b-1", "i-0b-2", "i-0b-3", "i-0a-0"])
    assert asyncio.run(hosts_to_close(scheduler, 1)) == ["i-0b"]
    assert asyncio.run(hosts_to_close(scheduler, 0)) == []
