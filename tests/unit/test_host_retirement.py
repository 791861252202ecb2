"""A retired worker whose heartbeat overtakes the order to close is known as retired."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from distributed import Nanny, Scheduler, Worker
from distributed.security import Security

from terradask_host.preload import retirement
from terradask_host.preload.retirement import RETIRED, remember_retired
from terradask_host.preload.worker_admission import NAMES_OPERATION
from terradask_host.preload.workers import CloseReasons, HostedWorkers
from terradask_host.rules.policy import FORGOTTEN

from ..waiting import HANG_SECONDS


class OrderToCloseIsLate:
    """A scheduler's connection to a worker on which the order to close doesn't arrive."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def send(self, *messages: dict[str, Any]) -> None:
        self._stream.send(*(each for each in messages if each["op"] != "close"))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


async def _why_closed(
    cls: type, *, retired: bool, answers: bool = True, in_time: bool = False
) -> Any:
    reasons = CloseReasons()
    reasons.record()
    async with Scheduler(host="127.0.0.1", port=0, dashboard_address=":0") as scheduler:
        remember_retired(scheduler)
        workers = HostedWorkers(
            cls,
            scheduler.address,
            [{"name": "i-0a", "nthreads": 1, "host": "127.0.0.1"}],
            security=Security(),
            dashboard=False,
        )
        await workers.start()
        (address,) = scheduler.workers
        if not in_time:
            scheduler.stream_comms[address] = OrderToCloseIsLate(scheduler.stream_comms[address])
        if retired:
            await scheduler.retire_workers(workers=[address], close_workers=True, remove=True)
        else:
            await scheduler.remove_worker(address, stimulus_id="worker-ttl")
        await asyncio.wait_for(workers.finished(), HANG_SECONDS)
        if not answers:
            await scheduler.close()
        why = await workers.why_closed(reasons)
        await workers.close()
        return why


@pytest.fixture(autouse=True)
def _classes(monkeypatch: pytest.MonkeyPatch) -> None:
    for cls in (Nanny, Worker):
        for method in ("close", "close_gracefully"):
            monkeypatch.setattr(cls, method, getattr(cls, method))


@pytest.mark.parametrize("cls", [Nanny, Worker])
def test_a_retired_worker_is_known_although_its_heartbeat_came_first(cls: type) -> None:
    assert asyncio.run(_why_closed(cls, retired=True)) == RETIRED


def test_a_worker_that_the_scheduler_gave_up_is_forgotten() -> None:
    assert asyncio.run(_why_closed(Worker, retired=False)) == FORGOTTEN


@pytest.mark.parametrize(("retired", "why"), [(False, FORGOTTEN), (True, RETIRED)])
def test_one_that_hung_and_is_told_to_close_when_it_goes_on_is_forgotten_and_not_retired(
    retired: bool, why: str
) -> None:
    assert asyncio.run(_why_closed(Nanny, retired=retired, in_time=True)) == why


def test_without_an_answer_it_is_forgotten(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retirement, "ANSWER_SECONDS", 0.2)
    assert asyncio.run(_why_closed(Worker, retired=True, answers=False)) == FORGOTTEN
    assert "can't ask whether it was retired" in capsys.readouterr().err


@pytest.mark.parametrize("ends", [True, False])
async def test_leaving_without_retiring_is_said_unless_the_cluster_ends(
    capsys: pytest.CaptureFixture[str], *, ends: bool
) -> None:
    reasons = CloseReasons()
    reasons.record()
    async with Scheduler(host="127.0.0.1", port=0, dashboard_address=":0") as scheduler:

        async def breaks_off(comm: Any, names: list[str]) -> None:
            comm.abort()
            if ends:
                await asyncio.sleep(0.1)
                closing.append(asyncio.ensure_future(scheduler.close(reason="host-leaves")))

        closing: list[asyncio.Future[None]] = []
        scheduler.handlers[NAMES_OPERATION] = breaks_off
        workers = HostedWorkers(
            Nanny,
            scheduler.address,
            [{"name": "i-0a", "nthreads": 1, "host": "127.0.0.1"}],
            security=Security(),
            dashboard=False,
        )
        await workers.start()
        await asyncio.wait_for(workers.retire(HANG_SECONDS, reasons), HANG_SECONDS)
        await asyncio.gather(*closing)
    assert ("leaving without retiring: CommClosedError" in capsys.readouterr().err) is not ends


class ClosedByItsScheduler:
    """A worker that its scheduler closes soon after the host is told to leave."""

    def __init__(self, scheduler: str, **_: Any) -> None:
        self.closes = 0

    async def finished(self) -> None:
        await asyncio.sleep(0.1)

    async def close(self, reason: str | None = None) -> None:
        self.closes += 1


async def test_a_scheduler_that_answers_no_more_keeps_no_host() -> None:
    async def never_answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    silent = await asyncio.start_server(never_answers, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    workers = HostedWorkers(
        ClosedByItsScheduler, f"tcp://127.0.0.1:{port}", [{"name": "i-0a"}], security=Security()
    )
    async with silent:
        await asyncio.wait_for(workers.retire(10 * HANG_SECONDS, CloseReasons()), HANG_SECONDS)
    (worker,) = workers._workers.values()
    assert worker.closes == 1
