"""A scheduler and workers of Dask's in this process, with jobs: commands are real processes."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import psutil
from distributed import Scheduler
from distributed.worker import Worker

from terradask_host.jobs import JobRecord
from terradask_host.preload.jobs import JobRecords, Jobs
from terradask_host.rules.job_tasks import JobTask

from ..waiting import eventually_async


@dataclass
class Running:
    """The jobs of a scheduler, and what its host program is told to keep."""

    scheduler: Scheduler
    jobs: Jobs
    kept: dict[str, Any]
    reported: list[str]
    workers: list[Worker] = field(default_factory=list)
    _numbers: int = 0

    async def add_worker(self, nthreads: int = 2) -> Worker:
        """Start a worker more."""
        self._numbers += 1
        worker = await Worker(
            self.scheduler.address,
            nthreads=nthreads,
            name=f"i-{self._numbers}",
            dashboard=False,
            dashboard_address=":0",
        )
        self.workers.append(worker)
        return worker

    async def lose_worker(self, worker: Worker) -> None:
        """Have a worker go at once, as when AWS takes its host."""
        self.workers.remove(worker)
        # As the scheduler does when the connection breaks.
        await self.scheduler.remove_worker(worker.address, stimulus_id="lost", close=False)
        await worker.close(nanny=False, timeout=0, executor_wait=False)

    async def submit(
        self,
        command: Sequence[str],
        inputs: Sequence[str] | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        resources: Mapping[str, float] | None = None,
        packed: bytes | None = None,
        retries: int = 0,
        timeout_seconds: float | None = None,
    ) -> str:
        """Submit a job."""
        job = JobRecord(
            "etl",
            f"20261124T153000Z-{len(self.jobs._jobs):07x}",
            *("20261124T150000Z-aaaaaa", 1, tuple(command), tuple(environ or ())),
            *(retries, timeout_seconds, "2026-11-24T15:30:00Z", None),
            tasks=tuple(JobTask(index, each) for index, each in enumerate(inputs or [None])),
        )
        await self.jobs.submit(job.to_document(), environ, resources, packed)
        return job.id

    async def record(self, job: str) -> dict[str, Any]:
        """Return a job's record."""
        found = await self.jobs.read(job, rows=True)
        assert found is not None
        record: dict[str, Any] = found["record"]
        return record

    async def tasks(self, job: str) -> list[dict[str, Any]]:
        """Return a job's tasks."""
        record = await self.record(job)
        return [dict(zip(record["columns"], row, strict=True)) for row in record["tasks"]]

    async def over(self, job: str) -> int:
        """Wait until a job is over; return its exit code."""
        table = self.jobs._jobs[job].table
        await eventually_async(lambda: table.is_over)
        assert table.exit_code is not None
        return table.exit_code

    async def output(self, job: str, index: int = 0) -> tuple[bytes, bytes]:
        """Return what a task has written."""
        found = await self.jobs.read_output(job, index)
        assert found is not None
        pieces = found["pieces"]
        first, second = (b"".join(c for s, c in pieces if s == stream) for stream in (1, 2))
        return first, second


@asynccontextmanager
async def running(workers: int = 1, nthreads: int = 2) -> AsyncIterator[Running]:
    """Run a scheduler with jobs, and workers."""
    kept: dict[str, Any] = {}
    reported: list[str] = []
    before = set(psutil.Process().children())

    def report(event: str, **facts: Any) -> None:
        assert event == "job"
        reported.append(facts["name"])
        kept[facts["name"]] = json.loads(gzip.decompress(base64.b64decode(facts["content"])))

    async with AsyncExitStack() as stack:
        scheduler = await stack.enter_async_context(
            Scheduler(host="127.0.0.1", port=0, dashboard=False, dashboard_address=":0")
        )
        jobs = Jobs(scheduler, scheduler.security, JobRecords(report))
        found = Running(scheduler, jobs, kept, reported)
        stack.push_async_callback(found.jobs.close)
        try:
            for _ in range(workers):
                await found.add_worker(nthreads)
            yield found
        finally:
            for worker in list(found.workers):
                await found.lose_worker(worker)
            # Their commands end with them, and the loop, which reads these, after that.
            await eventually_async(lambda: set(psutil.Process().children()) <= before)
            await asyncio.sleep(0.05)
