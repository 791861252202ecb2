"""This client counts hosts where the scheduler counts workers."""

from terradask._dask.host_workers import JoinedWorkers, host_of
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


def test_a_host_has_joined_when_all_of_its_workers_have():
    joined = JoinedWorkers()
    names = ["i-0a", "i-0a-1", "i-0b-1", "scheduler-i-0c"]
    joined.scheduler_info = {"workers": {name: {"name": name} for name in names}}
    assert joined.complete_hosts(2) == {"i-0a"}
    assert joined.complete_hosts(1) == {"i-0a", "i-0b"}
