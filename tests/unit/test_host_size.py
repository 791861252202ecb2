"""Numbers of workers from amounts, by what hosts that have joined have."""

import pytest

from terradask._dask.host_workers import HostSize
from terradask.errors import InvalidInput

GIB = 2**30


def worker(name, nthreads=4, memory_limit=16 * GIB):
    return {"name": name, "nthreads": nthreads, "memory_limit": memory_limit}


def test_a_hosts_workers_count_together_and_the_smallest_host_counts():
    workers = [
        worker("i-0a"),
        worker("i-0b-1", 2, 8 * GIB),
        worker("i-0b-2", 1, 4 * GIB),
        worker("i-0c", 1, GIB),
    ]
    assert HostSize.smallest(workers, {"i-0a", "i-0b"}) == HostSize(3, 12 * GIB)


@pytest.mark.parametrize(
    ("n", "cores", "memory", "least"),
    [
        (0, 8, None, 2),
        (0, 9, None, 3),
        (5, 8, None, 5),
        (0, None, "33 GiB", 3),
        (0, 4, "64 GiB", 4),
        (0, 0, 0, 0),
        (0, 0.5, None, 1),
    ],
)
def test_at_least(n, cores, memory, least):
    assert HostSize(4, 16 * GIB).least(n, cores=cores, memory=memory) == least


@pytest.mark.parametrize(
    ("n", "cores", "memory", "most"),
    [(200, 9, None, 2), (1, 9, None, 1), (200, None, "33 GiB", 2), (200, 3, None, 0)],
)
def test_at_most(n, cores, memory, most):
    assert HostSize(4, 16 * GIB).most(n, cores=cores, memory=memory) == most


def test_without_a_worker_nothing_is_known():
    with pytest.raises(InvalidInput, match="wait_for_workers"):
        HostSize.smallest([worker("i-0a")], {"i-0b"})


@pytest.mark.parametrize(
    "amounts",
    [
        {"cores": -1},
        {"cores": "8"},
        {"cores": True},
        {"memory": "much"},
        {"memory": -5},
        {"cores": float("inf")},
    ],
)
def test_absurd_amounts(amounts):
    with pytest.raises(InvalidInput, match="amount"):
        HostSize(4, 16 * GIB).least(0, **amounts)


def test_workers_without_a_limit_say_nothing_of_memory():
    with pytest.raises(InvalidInput, match="no memory limit"):
        HostSize.smallest([worker("i-0a", memory_limit=None)], {"i-0a"}).least(0, memory="1 GiB")
