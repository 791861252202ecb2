"""Secrets sent to a real scheduler: sent, sent anew, handed over to another in its place,
forgotten.
"""

import asyncio
import contextlib
import datetime
import logging
from types import SimpleNamespace

import pytest
from distributed import Scheduler
from distributed.core import Status, rpc

from terradask._aws.credentials import LentCredentials
from terradask._dask.connection import SchedulerConnection
from terradask._dask.health import Health
from terradask._dask.host_workers import JoinedWorkers
from terradask._dask.secrets import SecretRelay
from terradask.errors import (
    ClusterStopped,
    InvalidInput,
    NoCredentials,
    VersionMismatch,
    WorkersUntold,
)
from terradask_host.commands import SendSecrets
from terradask_host.preload.commands import Commands

from ..waiting import eventually_async

VALUE = "a-planted-value"


async def call(function, *args):
    return function(*args)


class OtherDialer:
    """Leads to a scheduler in another's place."""

    async def scheduler_of(self, attachment):
        return rpc(attachment.address)


@contextlib.asynccontextmanager
async def scheduler(told, *, missed=(), knows=True):
    """A scheduler that keeps what it is told in a list."""

    def take(**secrets):
        told.append({name: given for name, given in secrets.items() if given})
        return {"missed": list(missed)}

    async with Scheduler(port=0, dashboard_address=":0", host="127.0.0.1") as running:
        if knows:
            Commands(running, {SendSecrets: take})
        yield running


@contextlib.asynccontextmanager
async def relaying(address, lend=None, **seconds):
    health = Health("etl")
    health.status = Status.running
    async with rpc(address) as comm:
        connection = SchedulerConnection(
            OtherDialer(), None, comm, health=health, joined=JoinedWorkers(), run=None
        )
        relay = SecretRelay(connection, health, call, lend, shortest_pause_seconds=0.05, **seconds)
        try:
            yield relay, health
        finally:
            health.status = Status.closing
            await relay.stop()


def lent(name, seconds=3600.0):
    return LentCredentials(
        name,
        f"{name}-key",
        f"{name}-token",
        datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds),
    )


class Lends(list):
    """What is lent, one after the other; the last one again and again. Errors are raised."""

    asked = 0

    def __call__(self):
        self.asked += 1
        found = self.pop(0) if len(self) > 1 else self[0]
        if isinstance(found, Exception):
            raise found
        return found


async def test_variables_are_sent_and_bad_ones_are_not():
    told = []
    async with scheduler(told) as running, relaying(running.address) as (relay, _):
        with pytest.raises(InvalidInput):
            await relay.send_private_envs({"DASK_X": VALUE})
        await relay.send_private_envs({"A": VALUE})
        assert told == [{"environ": {"A": VALUE}}]
        assert VALUE not in repr(relay)


async def test_credentials_are_sent_once_unless_they_shall_be_kept_fresh():
    told = []
    lends = Lends(
        [
            lent("first", 0.1),
            lent("second", 0.1),
            NoCredentials("log in", advice="aws sso login"),
            lent("third"),
        ]
    )
    async with scheduler(told) as running, relaying(running.address, lends) as (relay, _):
        await relay.send_credentials()
        await asyncio.sleep(0.3)
        assert [each["credentials"]["AccessKeyId"] for each in told] == ["first"]
        await relay.send_credentials(automatic_refresh=True)
        await eventually_async(lambda: len(told) == 3)
        assert told[-1]["credentials"]["AccessKeyId"] == "third"
        assert relay.is_refreshing
    assert not relay.is_refreshing


async def test_what_keeps_credentials_from_being_sent_is_logged_once_and_tried_again(caplog):
    told = []
    lends = Lends(
        [
            lent("first", 0.2),
            NoCredentials("the AWS login has expired", advice="aws sso login"),
        ]
    )
    async with scheduler(told) as running, relaying(running.address, lends) as (relay, _):
        with caplog.at_level(logging.WARNING, logger="terradask"):
            await relay.send_credentials(automatic_refresh=True)
            await eventually_async(lambda: lends.asked > 3)
        assert caplog.text.count("aws sso login") == 1
        lends[:] = [OSError("no network"), lent("again")]
        await eventually_async(lambda: told[-1]["credentials"]["AccessKeyId"] == "again")


async def test_a_cluster_that_is_over_gets_nothing():
    told = []
    lends = Lends([lent("first", 0.2)])
    async with scheduler(told) as running, relaying(running.address, lends) as (relay, health):
        await relay.send_credentials(automatic_refresh=True)
        health.record_end(ClusterStopped("it is stopped", cluster="etl"))
        with pytest.raises(ClusterStopped):
            await relay.send_private_envs({"A": VALUE})
        with pytest.raises(ClusterStopped):
            await relay.send_credentials()
        await asyncio.sleep(0.3)
        assert len(told) == 1


async def test_workers_that_missed_it_are_named_and_hold_up_no_start(caplog):
    told = []
    missed = [f"i-{n}" for n in range(7)]
    async with (
        scheduler(told, missed=missed) as running,
        relaying(running.address, Lends([lent("first")])) as (relay, _),
    ):
        with pytest.raises(WorkersUntold, match="7 of the workers") as caught:
            await relay.send_private_envs({"A": VALUE})
        assert caught.value.given == "i-0, i-1, i-2, i-3, i-4 and 2 others"
        with caplog.at_level(logging.WARNING, logger="terradask"):
            await relay.send_first_credentials()
        assert "7 of the workers" in caplog.text
        assert relay.is_refreshing


async def test_hosts_of_an_older_terradask_are_named_as_such():
    async with scheduler([], knows=False) as running, relaying(running.address) as (relay, _):
        with pytest.raises(VersionMismatch, match="older terradask"):
            await relay.send_private_envs({"A": VALUE})


async def test_a_scheduler_in_anothers_place_is_handed_what_that_had(caplog):
    old, new, first_lent = [], [], lent("first")
    async with (
        scheduler(old) as first,
        scheduler(new) as second,
        relaying(
            first.address, Lends([first_lent]), hand_over_seconds=0.5, hand_over_pause_seconds=0.01
        ) as (relay, _),
    ):
        await relay.hand_over(SimpleNamespace(address=second.address))
        assert new == [], "nothing was sent, so there is nothing to hand over"
        await relay.send_private_envs({"A": VALUE, "B": "1"})
        await relay.send_private_envs({"B": "2"})
        await relay.send_credentials()
        await relay.hand_over(SimpleNamespace(address=second.address))
        assert new == [{"environ": {"A": VALUE, "B": "2"}, "credentials": first_lent.document()}]
        with caplog.at_level(logging.WARNING, logger="terradask"):
            await second.close()
            await relay.hand_over(SimpleNamespace(address=second.address))
        assert caplog.text.count("send them again") == 1
        async with scheduler(None) as third:
            # One whose answer is an error.
            with caplog.at_level(logging.WARNING, logger="terradask"):
                await relay.hand_over(SimpleNamespace(address=third.address))
        assert caplog.text.count("send them again") == 2
        assert VALUE not in caplog.text


async def test_when_it_is_closed_it_has_forgotten_what_was_sent():
    told, first_lent = [], lent("first")
    async with (
        scheduler(told) as running,
        relaying(running.address, Lends([first_lent])) as (relay, _),
    ):
        await relay.send_private_envs({"A": VALUE})
        await relay.send_credentials()
        assert relay.sent == SendSecrets({"A": VALUE}, first_lent.document())
        assert VALUE not in repr(vars(relay))
    assert relay.sent == SendSecrets()
