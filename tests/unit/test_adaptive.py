"""A client's side of adaptive scaling: what it says to a scheduler, of this terradask or an older
one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from distributed import Scheduler
from distributed.core import Status, rpc

from terradask._dask.adaptive import (
    AdaptiveScaling,
    ScalingPolicies,
    warn_if_older,
)
from terradask._dask.connection import SchedulerConnection
from terradask._dask.health import Health
from terradask._dask.host_workers import JoinedWorkers
from terradask.errors import ClusterError, VersionMismatch
from terradask_host.commands import Adapt, ChooseHosts, ReadPolicies, Scale
from terradask_host.preload.commands import Commands
from terradask_host.preload.leave import Questions
from terradask_host.preload.scaling import ScalingWatch
from terradask_host.scaling_policy import ScalingPolicy

POLICY = ScalingPolicy(2, 5)


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what terradask has logged."""
    return [each.getMessage() for each in caplog.records if each.name == "terradask"]


class Host:
    """Takes what the scheduler's process reports, as the host program does."""

    def __init__(self) -> None:
        self.watch: ScalingWatch | None = None
        self.questions = Questions(self)
        self.policies: dict[str, Any] = {}
        self.refuses: str | None = None
        self.told: list[dict[str, Any]] = []

    def __call__(self, event: str, *, number: int, **facts: Any) -> None:
        assert self.watch is not None
        self.told.append(facts)
        more: dict[str, Any] = {}
        if self.refuses is None and event == "adapt":
            found = self.policies | facts["policies"]
            self.policies = {name: one for name, one in found.items() if one is not None}
        elif self.refuses is None:
            ended = {n: self.policies.pop(n) for n in facts["numbers"] if n in self.policies}
            more = {"ended": ended, "leaving": ["i-1"]}
        self.watch.take_policies({"policies": self.policies})
        # Not within the question: the host program is another process.
        answer = {"number": number, "why": self.refuses, **more}
        asyncio.get_running_loop().call_soon(self.questions.take, answer)


@contextlib.asynccontextmanager
async def client_of(host: Host | None) -> AsyncIterator[ScalingPolicies]:
    """Yield a client's policies; without a host, the scheduler is of an older terradask."""
    async with Scheduler(
        host="127.0.0.1", port=0, dashboard=False, dashboard_address=":0"
    ) as scheduler:
        if host is not None:
            watch = host.watch = ScalingWatch(scheduler, {}, host, host.questions)
            handlers = {
                Adapt: watch.adapt,
                ReadPolicies: watch.read_policies,
                Scale: watch.scale,
                ChooseHosts: watch.would_leave,
            }
            Commands(scheduler, handlers)
        health, nothing = Health("etl"), None
        health.status = Status.running
        attachment: Any = SimpleNamespace(scheduler=SimpleNamespace(scaling=None))
        async with rpc(scheduler.address) as comm:
            yield ScalingPolicies(
                SchedulerConnection(
                    nothing,  # type: ignore[arg-type]
                    attachment,
                    comm,
                    health=health,
                    joined=JoinedWorkers(),
                    run=nothing,  # type: ignore[arg-type]
                )
            )


async def test_what_is_set_is_known_and_so_is_what_others_set() -> None:
    host = Host()
    async with client_of(host) as policies:
        await policies.set({"workers": POLICY})
        assert policies.known == {"workers": POLICY}
        assert host.policies == {"workers": POLICY.to_document()}
        assert host.watch is not None
        host.watch.take_policies({"policies": {}})
        await policies.refresh()
        assert policies.known == {}


async def test_a_read_that_ends_after_a_change_does_not_undo_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answered, may_arrive = asyncio.Event(), asyncio.Event()

    async with client_of(Host()) as policies:
        send = policies.connection.send

        async def late(command: Any) -> Any:
            answer = await send(command)
            if isinstance(command, ReadPolicies):
                answered.set()
                await may_arrive.wait()
            return answer

        monkeypatch.setattr(policies.connection, "send", late)
        reading = asyncio.create_task(policies.refresh())
        await answered.wait()
        await policies.set({"workers": POLICY})
        may_arrive.set()
        await reading
        assert policies.known == {"workers": POLICY}


async def test_a_number_ends_adapting_of_its_group_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    host = Host()
    async with client_of(host) as policies:
        await policies.set({"workers": POLICY, "gpu": POLICY})
        with caplog.at_level(logging.WARNING):
            await policies.scale({"workers": 4, "big": 1})
        assert policies.known == {"gpu": POLICY}
        (line,) = said(caplog)
        assert "the number of its group workers is set" in line
        assert "between 2 and 5 hosts" in line
        # One that doesn't adapt: there is nothing to say.
        await policies.scale({"workers": 5}, ["i-1"])
        assert len(said(caplog)) == 1
    sent = [{key: one[key] for key in ("numbers", "hosts", "act")} for one in host.told[1:]]
    assert sent == [
        {"numbers": {"workers": 4, "big": 1}, "hosts": [], "act": True},
        {"numbers": {"workers": 5}, "hosts": ["i-1"], "act": True},
    ]
    # The host chooses by what the scheduler has to do.
    assert host.told[1]["load"]["hosts"] == []


async def test_who_would_leave_is_asked_and_nothing_is_set() -> None:
    host = Host()
    async with client_of(host) as policies:
        assert await policies.removal_candidates({"workers": 1}) == ["i-1"]
    assert [one["act"] for one in host.told] == [False]


async def test_what_the_host_refuses_is_an_error_that_says_why() -> None:
    host = Host()
    async with client_of(host) as policies:
        await policies.set({"workers": POLICY})
        host.refuses = "there is no bucket"
        with pytest.raises(ClusterError, match="there is no bucket"):
            await policies.set({"workers": None})
        assert policies.known == {"workers": POLICY}


async def test_an_older_host_is_told_of_where_it_matters(caplog: pytest.LogCaptureFixture) -> None:
    async with client_of(None) as policies:
        with pytest.raises(VersionMismatch, match="terradask apply network"):
            await policies.set({"workers": POLICY})
        with pytest.raises(VersionMismatch, match="the command to scale"):
            await policies.scale({"workers": 1})
        await policies.refresh()
        assert policies.known is None
        warn_if_older("etl", policies)
        assert "etl neither adapts nor replaces missing Spot capacity by On-Demand" in caplog.text
    async with client_of(Host()) as policies:
        await policies.refresh()
        caplog.clear()
        warn_if_older("etl", policies)
        assert said(caplog) == []


async def test_in_asynchronous_code_it_begins_at_once_and_can_be_awaited() -> None:
    host = Host()

    def begin(work: Any, *args: Any) -> Any:
        return asyncio.ensure_future(work(*args))

    async with client_of(host) as policies:
        scaling = AdaptiveScaling("workers", POLICY, policies, begin)
        assert (scaling.minimum, scaling.maximum) == (2, 5)
        assert await scaling is scaling
        assert host.policies == {"workers": POLICY.to_document()}
        assert repr(scaling) == (
            "AdaptiveScaling('workers', minimum=2, maximum=5, target_duration=180 s, "
            "wait_count=24, interval=5 s)"
        )
        await scaling.stop()
        assert host.policies == {}
