"""What a cluster object entrusts to a real scheduler: told, told anew, handed over to another in its place, forgotten."""

import asyncio
import contextlib
import datetime
import json
import logging
from types import SimpleNamespace

import pytest
from distributed import Scheduler
from distributed.core import Status, rpc
from distributed.deploy.cluster import Cluster as DaskCluster
from distributed.protocol import deserialize

from terradask._aws.credentials import LentCredentials
from terradask._dask import secrets
from terradask._dask.remote import RemoteScheduler, RemoteWorker
from terradask._dask.secrets import ConfidingCluster
from terradask.errors import ClusterStopped, ExpiredCredentials, InvalidInput, VersionMismatch, WorkersUntold

pytestmark = pytest.mark.timeout(30)

VALUE = "a-planted-value"


class Confiding(ConfidingCluster):
    """Talks to a scheduler of the test's."""

    _deployment = SimpleNamespace(name="etl", aws=None)

    def __init__(self, address):
        self._address = address
        super().__init__(worker={"cls": RemoteWorker}, asynchronous=True, name="etl")

    async def _start(self):
        self.scheduler = RemoteScheduler(self._address)
        self.scheduler_comm = rpc(self._address)
        await DaskCluster._start(self)

    async def _call(self, function, *args):
        return function(*args)

    async def _find_whether_over(self):
        self._over = ClusterStopped("it is stopped", cluster="etl")

    async def _scheduler_of(self, attachment):
        return rpc(attachment.address)

    async def _close(self):
        await self._stop_watching()
        await DaskCluster._close(self)


@contextlib.asynccontextmanager
async def scheduler(told, *, missed=(), knows=True):
    """A scheduler that keeps what it is told in a list."""

    def confide(sealed):
        told.append(json.loads(deserialize(sealed.header, sealed.frames)))
        return {"missed": list(missed)}

    async with Scheduler(port=0, dashboard_address=":0", host="127.0.0.1") as running:
        if knows:
            running.handlers["terradask_confide"] = confide
        yield running


@contextlib.asynccontextmanager
async def confiding(address):
    cluster = Confiding(address)
    await cluster._start()
    try:
        yield cluster
    finally:
        await cluster._close()


def lent(name, seconds=3600.0):
    return LentCredentials(name, f"{name}-key", f"{name}-token", secrets._now() + datetime.timedelta(seconds=seconds))


@pytest.fixture
def lends(monkeypatch):
    """What is lent, one after the other; the last one again and again. Errors are raised."""
    queue = [lent("first")]

    def lend(aws, duration_seconds):
        found = queue.pop(0) if len(queue) > 1 else queue[0]
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(secrets, "lend", lend)
    monkeypatch.setattr(secrets, "_SHORTEST_PAUSE_SECONDS", 0.05)
    return queue


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.02)


async def test_variables_are_sent_and_bad_ones_are_not():
    told = []
    async with scheduler(told) as running, confiding(running.address) as cluster:
        with pytest.raises(InvalidInput):
            await cluster.send_private_envs({"DASK_X": VALUE})
        await cluster.send_private_envs({"A": VALUE})
        assert told == [{"environ": {"A": VALUE}}]
        assert VALUE not in repr(cluster)


async def test_credentials_are_sent_once_unless_they_shall_be_kept_fresh(lends):
    told = []
    async with scheduler(told) as running, confiding(running.address) as cluster:
        lends[:] = [lent("first", 0.1), lent("second", 0.1), ExpiredCredentials("log in", advice="aws sso login"), lent("third")]
        await cluster.send_credentials()
        await asyncio.sleep(0.3)
        assert [each["credentials"]["AccessKeyId"] for each in told] == ["first"]
        await cluster.send_credentials(automatic_refresh=True)
        await until(lambda: len(told) == 3)
        assert told[-1]["credentials"]["AccessKeyId"] == "third"
        task = cluster._refreshing
    assert task.done()


async def test_what_keeps_credentials_from_being_sent_is_told_once_and_tried_again(lends, caplog):
    told = []
    async with scheduler(told) as running, confiding(running.address) as cluster:
        lends[:] = [lent("first", 0.2), ExpiredCredentials("the AWS login has expired", advice="aws sso login")]
        with caplog.at_level(logging.WARNING, logger="terradask"):
            await cluster.send_credentials(automatic_refresh=True)
            await asyncio.sleep(0.5)
        assert caplog.text.count("aws sso login") == 1
        lends[:] = [OSError("no network"), lent("again")]
        await until(lambda: told[-1]["credentials"]["AccessKeyId"] == "again")


async def test_a_cluster_that_is_over_gets_nothing(lends):
    told = []
    async with scheduler(told) as running, confiding(running.address) as cluster:
        await cluster.send_credentials(automatic_refresh=True)
        cluster._over = ClusterStopped("it is stopped", cluster="etl")
        with pytest.raises(ClusterStopped):
            cluster.send_private_envs({"A": VALUE})
        with pytest.raises(ClusterStopped):
            cluster.send_credentials()
        assert not await cluster._sleep_until(secrets._now())


async def test_workers_that_missed_it_are_named_and_hold_up_no_start(lends, caplog):
    told = []
    async with scheduler(told, missed=[f"i-{n}" for n in range(7)]) as running, confiding(running.address) as cluster:
        with pytest.raises(WorkersUntold, match="7 of the workers") as caught:
            await cluster.send_private_envs({"A": VALUE})
        assert caught.value.given == "i-0, i-1, i-2, i-3, i-4 and 2 others"
        with caplog.at_level(logging.WARNING, logger="terradask"):
            await cluster._send_first_credentials()
        assert "7 of the workers" in caplog.text
        assert not cluster._refreshing.done()


async def test_hosts_of_an_older_terradask_are_named_as_such():
    async with scheduler([], knows=False) as running, confiding(running.address) as cluster:
        with pytest.raises(VersionMismatch, match="knows no private variables"):
            await cluster.send_private_envs({"A": VALUE})


async def test_a_scheduler_in_anothers_place_is_handed_what_that_had(lends, monkeypatch, caplog):
    old, new = [], []
    monkeypatch.setattr(secrets, "_HAND_OVER_PAUSE_SECONDS", 0.01)
    async with scheduler(old) as first, scheduler(new) as second, confiding(first.address) as cluster:
        await cluster._hand_over(SimpleNamespace(address=second.address))
        assert new == [], "nothing was sent, so there is nothing to hand over"
        await cluster.send_private_envs({"A": VALUE, "B": "1"})
        await cluster.send_private_envs({"B": "2"})
        await cluster.send_credentials()
        await cluster._hand_over(SimpleNamespace(address=second.address))
        assert new == [{"environ": {"A": VALUE, "B": "2"}, "credentials": lends[0].document()}]
        with caplog.at_level(logging.WARNING, logger="terradask"):
            await second.close()
            monkeypatch.setattr(secrets, "_HAND_OVER_SECONDS", 0.3)
            await cluster._hand_over(SimpleNamespace(address=second.address))
        assert caplog.text.count("send them again") == 1
        async with scheduler(None) as third:
            # One whose answer is an error.
            with caplog.at_level(logging.WARNING, logger="terradask"):
                await cluster._hand_over(SimpleNamespace(address=third.address))
        assert caplog.text.count("send them again") == 2
        assert VALUE not in caplog.text


async def test_a_closed_cluster_object_has_forgotten_it(lends):
    told = []
    async with scheduler(told) as running, confiding(running.address) as cluster:
        await cluster.send_private_envs({"A": VALUE})
        await cluster.send_credentials()
        assert cluster._confided.given == {"environ": {"A": VALUE}, "credentials": lends[0].document()}
        assert VALUE not in repr(vars(cluster))
    assert cluster.status == Status.closed
    assert cluster._confided.given == {}
