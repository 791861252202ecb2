"""What a client asks of its jobs while its connection, or S3, is out of reach."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from distributed import rpc

from terradask._clusters.jobs.store import JobOutput
from terradask._dask import job_requests
from terradask._dask.commands import send
from terradask._dask.job import prepare_job
from terradask._dask.job_requests import JobRequests
from terradask.errors import ClusterError, EndpointUnreachable
from terradask_host.commands import CancelJob, Command, ReadJob, ReadJobOutput, SubmitJob
from terradask_host.jobs import MOST_FILES_BYTES, JobRecord, output_name, record_name
from terradask_host.preload.commands import Commands

from ..waiting import eventually_async
from .running_jobs import Running, running


class Line:
    """A connection to a scheduler of Dask's, which can be cut."""

    def __init__(self, address: str) -> None:
        self.scheduler = rpc(address)
        self.attachment = SimpleNamespace(
            run=SimpleNamespace(run_id="run"), scheduler=SimpleNamespace(boot=1)
        )
        self.cut: asyncio.Future[None] | None = None
        self.failures = 0

    async def send(self, command: Command) -> Any:
        if self.cut is None:
            self.cut = asyncio.get_running_loop().create_future()
        asked = asyncio.ensure_future(send(self.scheduler, "etl", command))
        try:
            await asyncio.wait({asked, self.cut}, return_when=asyncio.FIRST_COMPLETED)
            if self.cut.done():
                self.failures += 1
                raise OSError("no route")
            return asked.result()
        finally:
            asked.cancel()

    def break_off(self) -> None:
        """Fail what is asked, and what will be."""
        assert self.cut is not None
        self.cut.set_result(None)

    def mend(self) -> None:
        """Let calls through again."""
        self.cut = None


class Bucket:
    """What a deployment reads of what a scheduler had kept."""

    name = "etl"

    def __init__(self, kept: dict[str, Any]) -> None:
        self._kept = kept
        self.is_away = False
        self.looks = 0

    def job(self, job: str) -> JobRecord:
        self.looks += 1
        if self.is_away:
            raise EndpointUnreachable("S3 doesn't answer.")
        return JobRecord.read(self._kept[record_name(job)], self.name)

    def job_output(self, job: str, index: int) -> JobOutput | None:
        kept = self._kept.get(output_name(job, index))
        return None if kept is None else JobOutput.read(kept)


@pytest.fixture
async def found(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Running]:
    monkeypatch.setattr(job_requests, "_PAUSE_SECONDS", 0.05)
    async with running() as one:
        handlers = {
            SubmitJob: one.jobs.submit,
            ReadJob: one.jobs.read,
            ReadJobOutput: one.jobs.read_output,
            CancelJob: one.jobs.cancel,
        }
        Commands(one.scheduler, handlers)
        yield one


@pytest.fixture
async def line(found: Running) -> AsyncIterator[Line]:
    line = Line(found.scheduler.address)
    yield line
    await line.scheduler.close_rpc()


async def call(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def shell(line: str) -> list[str]:
    return ["sh", "-c", line]


async def collect(requests: JobRequests, job: str, into: list[bytes]) -> None:
    async for output in requests.follow(job, 0):
        into.append(output.of(1))


@pytest.mark.parametrize("ends_meanwhile", [False, True])
async def test_a_task_is_followed_and_waited_for_beyond_a_loss_of_the_connection(
    found: Running, line: Line, tmp_path: Path, ends_meanwhile: bool
) -> None:
    bucket = Bucket(found.kept)
    requests = JobRequests(line, bucket, call)  # type: ignore[arg-type]
    go, written = tmp_path / "go", list[bytes]()
    command = shell(f"echo one; until test -e {go}; do sleep 0.05; done; echo two")
    job = await requests.submit(prepare_job(command))
    following = asyncio.create_task(collect(requests, job, written))
    waiting = asyncio.create_task(requests.wait(job))
    await eventually_async(lambda: written)
    bucket.is_away = True
    line.break_off()
    await eventually_async(lambda: bucket.looks >= 4)
    assert not following.done()
    assert not waiting.done()
    go.touch()
    if ends_meanwhile:
        await found.over(job)
        bucket.is_away = False
    else:
        line.mend()
    await following
    assert (await waiting).exit_code == 0
    assert b"".join(written) == b"one\ntwo\n"


async def test_a_job_whose_submission_is_broken_off_is_cancelled(
    found: Running, line: Line
) -> None:
    requests = JobRequests(line, Bucket(found.kept), call)  # type: ignore[arg-type]
    submit, taken = found.jobs.submit, asyncio.Event()

    async def take_long(document: Any, **more: Any) -> None:
        await submit(document, **more)
        taken.set()
        await asyncio.sleep(60)

    Commands(found.scheduler, {SubmitJob: take_long, CancelJob: found.jobs.cancel})
    submitting = asyncio.create_task(requests.submit(prepare_job(["sleep", "100"])))
    await taken.wait()
    submitting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await submitting
    (job,) = found.jobs._jobs
    assert await found.over(job) == 143


async def test_what_the_scheduler_refuses_is_an_error(found: Running, line: Line) -> None:
    requests = JobRequests(line, Bucket(found.kept), call)  # type: ignore[arg-type]
    large = replace(prepare_job(["true"]), files=bytes(MOST_FILES_BYTES + 1))
    with pytest.raises(ClusterError, match=r"refuses to submit job(?s:.)*its files have over"):
        await requests.submit(large)
    assert not found.jobs._jobs


async def test_a_task_that_there_is_not_has_written_nothing(found: Running, line: Line) -> None:
    requests = JobRequests(line, Bucket(found.kept), call)  # type: ignore[arg-type]
    job = await requests.submit(prepare_job(["true"]))
    written: list[bytes] = []
    async with asyncio.timeout(20):
        async for output in requests.follow(job, 7):
            written.append(output.of())
    assert not written
