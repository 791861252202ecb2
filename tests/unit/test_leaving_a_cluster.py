"""What a Cluster object says when there is nothing for it to do any more: closed, or of another process."""

import asyncio
import os

import pytest
from distributed.core import Status

from terradask import Cluster
from terradask._dask.lifecycle import ProvisionedCluster
from terradask.errors import ClusterClosed


def never_started():
    async def make():
        return Cluster("etl", asynchronous=True)

    return asyncio.run(make())


@pytest.fixture
def closed():
    cluster = never_started()
    cluster.status = Status.closed
    return cluster


@pytest.mark.parametrize("use", [lambda c: c.scale(3), lambda c: c.adapt(maximum=3), lambda c: c.wait_for_workers(1)])
def test_a_closed_cluster_says_so(closed, use):
    with pytest.raises(ClusterClosed, match="Cluster\\(name='etl'\\)"):
        use(closed)


def test_closing_twice_is_no_news(closed):
    for _ in range(2):
        assert not isinstance(closed.close(), Exception)
    assert closed.status == Status.closed


def test_a_forked_process_neither_ends_nor_uses_its_parents_cluster():
    cluster = never_started()
    cluster.status = Status.running
    ProvisionedCluster._open.add(cluster)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        told = "nothing"
        try:
            assert not ProvisionedCluster._open
            cluster.close()
            cluster.scale(1)
        except ClusterClosed as error:
            told = str(error)
        finally:
            os.write(write, told.encode())
            os._exit(0)
    os.close(write)
    try:
        os.waitpid(pid, 0)
        assert "Cluster.from_name('etl')" in os.read(read, 10_000).decode()
        assert cluster in ProvisionedCluster._open
        assert cluster.status == Status.running
    finally:
        os.close(read)
        ProvisionedCluster._open.discard(cluster)
        cluster.status = Status.closed
