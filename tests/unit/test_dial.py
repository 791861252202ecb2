"""A scheduler that doesn't answer: its replacement is dialled, or the error says what
to look at.
"""

import asyncio
import dataclasses
import datetime
import pickle
import socket
from types import SimpleNamespace

import pytest
from distributed.security import Security

from terradask._clusters.attach import Attachment
from terradask._dask import dial
from terradask._dask.dial import AddressEndpoint, Dialer
from terradask._observe.documents import Descriptor
from terradask.errors import ClusterStopped, SchedulerUnreachable
from terradask_host.documents import Run, SchedulerAddress
from terradask_host.rules.autoscaling_groups import Group, Member


def scheduler_at(port, boot=1, run_id="r1"):
    return SchedulerAddress(
        run_id, f"i-{boot}", boot, f"tcp://127.0.0.1:{port}", None, 8787, "3.11", {}
    )


def attachment(port):
    descriptor = Descriptor(
        "default", "etl", "us-east-1", "bucket", "us-east-1a", {}, 9, "secret", {}, {}
    )
    run = Run("r1", "2026-11-20T05:15:00Z", "arn", "v1", "3.11", {}, 2)
    return Attachment(descriptor, run, scheduler_at(port), None)


async def call(function, *args):
    return function(*args)


def dialer(deployment, allowed_sources=list):
    return Dialer(
        deployment,
        AddressEndpoint("private"),
        Security(),
        call,
        allowed_sources=allowed_sources,
        try_seconds=0.2,
        pause_seconds=0.01,
    )


@pytest.fixture
def silent_port():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        yield unused.getsockname()[1]


class Deployment:
    """What the bucket says of the run."""

    objects = None

    def __init__(self, run_id="r1"):
        self.run_id = run_id

    def run(self):
        return SimpleNamespace(run_id=self.run_id) if self.run_id else None

    def why_stopped(self, run_id):
        return ClusterStopped(f"etl of {run_id} is stopped", cluster="etl")


@pytest.mark.parametrize("run_id", [None, "r2"])
def test_a_run_that_is_over_is_not_waited_for(silent_port, run_id, monkeypatch):
    monkeypatch.setattr(dial, "read_scheduler", lambda objects: scheduler_at(silent_port))

    async def main():
        await dialer(Deployment(run_id)).reach(attachment(silent_port), 30)

    with pytest.raises(ClusterStopped, match="etl"):
        asyncio.run(main())


def test_the_error_names_the_address_the_rules_and_the_command(silent_port, monkeypatch):
    monkeypatch.setattr(dial, "read_scheduler", lambda objects: scheduler_at(silent_port))

    async def main():
        await dialer(Deployment(), allowed_sources=lambda: ["203.0.113.0/24 on 8786"]).reach(
            attachment(silent_port), 0.2
        )

    with pytest.raises(SchedulerUnreachable, match="terradask status etl") as caught:
        asyncio.run(main())
    assert caught.value.address == f"tcp://127.0.0.1:{silent_port}"
    assert isinstance(caught.value, ConnectionError)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.address, str(again)) == (caught.value.address, str(caught.value))


def test_a_public_address_is_a_matter_of_ingress(silent_port):
    there = dataclasses.replace(scheduler_at(silent_port), public_address="tcp://198.51.100.7:8786")
    known = dataclasses.replace(attachment(silent_port), scheduler=there)
    error = dial.unreachable(
        known, there.public_address, route="public", allowed=["203.0.113.0/24 on 8786"]
    )
    assert "203.0.113.0/24 on 8786" in str(error)
    assert "terradask apply network" in str(error)


def test_a_replacement_is_dialled(silent_port, monkeypatch):
    async def main():
        from distributed.core import Server

        async with Server({}) as server:
            await server.listen("tcp://127.0.0.1:0")
            monkeypatch.setattr(
                dial, "read_scheduler", lambda objects: scheduler_at(server.port, boot=2)
            )
            found, comm = await dialer(Deployment()).reach(attachment(silent_port), 5)
            await comm.close()
            return found

    assert asyncio.run(main()).scheduler.boot == 2


@pytest.mark.parametrize(
    ("members", "said"),
    [
        (["i-1"], "on instance i-1, running according to AWS"),
        (["i-2"], "on instance i-1, ending"),
        (None, "on instance i-1\n"),
    ],
)
def test_a_scheduler_that_answers_no_more_is_told_with_what_aws_sees(silent_port, members, said):
    class Groups:
        """Auto Scaling's word on the scheduler's host, where it may be asked."""

        def describe(self):
            group = Group("scheduler", 1, 1, tuple(Member(one, "InService") for one in members))
            return {"scheduler": group}

    deployment = Deployment()
    deployment.groups, deployment.name = Groups(), "etl"
    since = datetime.datetime(2026, 11, 20, 5, 15, 7, tzinfo=datetime.UTC)
    error = asyncio.run(
        dialer(deployment).unanswered(attachment(silent_port), "tls://10.0.0.1:8786", since)
    )
    assert "hasn't answered since 05:15:07 UTC" in str(error)
    assert said in str(error)
    assert "ingress" not in str(error)
