"""Commands of clients to a scheduler, and its replies: both ends, with a real scheduler between."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import msgpack
import pytest
from distributed import Scheduler
from distributed.core import Status, rpc
from tornado.web import Application

from terradask._dask import commands
from terradask._dask.connection import SchedulerConnection
from terradask._dask.health import Health
from terradask._dask.host_workers import JoinedWorkers
from terradask.errors import ClusterError, VersionMismatch
from terradask_host.commands import Command
from terradask_host.errors import CommandRefused
from terradask_host.preload.commands import Commands


@dataclass(frozen=True)
class Double(Command):
    """Return a number twice as large."""

    number: int
    content: bytes = b""


@dataclass(frozen=True)
class Hidden(Command):
    """What comes over the forward alone."""

    over_forward = True


async def double(number: int, content: bytes) -> dict[str, Any]:
    if number < 0:
        raise CommandRefused(
            "it is below zero", given=number, allowed="0 or more", advice="take another"
        )
    return {"number": 2 * number, "content": content[:3] * (2 // number)}


HANDLERS: Mapping[type[Command], Any] = {Double: double, Hidden: lambda: "hidden"}


@contextlib.asynccontextmanager
async def connected(
    handlers: Mapping[type[Command], Any] | None,
) -> AsyncIterator[SchedulerConnection]:
    """Yield a client's connection to a scheduler; without handlers, to an older one."""
    nothing: Any = None
    async with Scheduler(
        host="127.0.0.1", port=0, dashboard=False, dashboard_address=":0"
    ) as scheduler:
        if handlers is not None:
            Commands(scheduler, handlers)
        health = Health("etl")
        health.status = Status.running
        async with rpc(scheduler.address, deserialize=False) as remote:
            yield SchedulerConnection(
                nothing,
                nothing,
                remote,
                health=health,
                joined=JoinedWorkers(),
                run=nothing,
            )


async def test_a_command_is_answered_whatever_it_carries() -> None:
    async with connected(HANDLERS) as connection:
        content = bytes(range(256)) * 2**12
        answer = await connection.send(Double(1, content))
        assert answer == {"number": 2, "content": b"\0\1\2\0\1\2"}


async def test_what_is_refused_is_an_error_that_says_why_and_what_to_do() -> None:
    async with connected(HANDLERS) as connection:
        with pytest.raises(ClusterError) as caught:
            await connection.send(Double(-1))
        error = caught.value
        assert (error.cluster, error.given) == ("etl", "it is below zero (-1)")
        assert (error.allowed, error.advice) == ("0 or more", "take another")
        assert "refuses to double" in error.problem


@pytest.mark.parametrize(
    ("command", "why"),
    [
        # What isn't an int is refused before its handler sees it.
        (Double("one"), "can't be read: number is str"),  # type: ignore[arg-type]
        (Double(0), "failed: ZeroDivisionError"),
    ],
)
async def test_what_fails_is_refused_too(command: Double, why: str, capfd: Any) -> None:
    async with connected(HANDLERS) as connection:
        with pytest.raises(ClusterError, match=why):
            await connection.send(command)
        # The next one finds the scheduler as it was.
        assert (await connection.send(Double(2)))["number"] == 4


async def test_hosts_of_another_version_are_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for handlers in (None, {}):
        async with connected(handlers) as connection:
            with pytest.raises(
                VersionMismatch, match="older terradask, which doesn't know the command to double"
            ) as caught:
                await connection.send(Double(1))
            assert caught.value.advice == "terradask apply network, then stop and start the cluster"
    for change, age in ((-1, "newer"), (1, "older")):
        async with connected(HANDLERS) as connection:
            ours = commands.FORMAT + change
            monkeypatch.setattr(commands, "FORMAT", ours)
            monkeypatch.setattr(
                Command, "to_document", lambda _, ours=ours: {"format": ours, "operation": "Double"}
            )
            with pytest.raises(VersionMismatch, match=f"run a{'n' * (age == 'older')} {age}"):
                await connection.send(Double(1))
        monkeypatch.undo()


async def test_each_command_has_one_way() -> None:
    async with connected(HANDLERS) as connection:
        with pytest.raises(VersionMismatch):
            await connection.send(Hidden())
    here = Commands(SimpleNamespace(handlers={}, http_application=Application()), HANDLERS)
    for command, said in ((Hidden(), "answer"), (Double(1), "unknown")):
        reply = await here.reply(commands.pack_command(command), over_forward=True)
        assert said in msgpack.unpackb(reply)


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"[" * 70_000,
        b"\x91" * 70_000,
        "text",
        {"answer": 1},
        msgpack.packb([]),
        msgpack.packb({"format": commands.FORMAT}),
        msgpack.packb({"format": "1"}),
        msgpack.packb({"format": commands.FORMAT, "refused": "so"}),
        msgpack.packb({"format": commands.FORMAT, "refused": {"problem": 1}}),
    ],
)
def test_a_reply_of_another_form_is_an_error(reply: Any) -> None:
    """A task may have taken over the scheduler's process."""
    with pytest.raises(ClusterError) as caught:
        commands.read_reply("etl", Double(1), reply)
    assert caught.value.cluster == "etl"


def test_a_refusal_is_shown_as_plain_text() -> None:
    why = {"problem": "a\x1b[2J\nb" * 999, "given": None, "allowed": None, "advice": None}
    reply = msgpack.packb({"format": commands.FORMAT, "refused": why})
    with pytest.raises(ClusterError) as caught:
        commands.read_reply("etl", Double(1), reply)
    assert str(caught.value.given).isprintable()
    assert len(str(caught.value)) < 600
