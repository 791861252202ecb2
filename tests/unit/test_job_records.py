"""How often, and in which order, the scheduler's process hands over what is recorded of jobs."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from terradask_host.jobs import output_name, record_name
from terradask_host.preload import jobs
from terradask_host.preload.jobs import JobRecords
from terradask_host.rules.job_table import JobTable

from ..waiting import eventually_async
from .running_jobs import running
from .test_job_tasks import AT, some_job


async def test_a_job_that_is_cancelled_is_recorded_a_few_times_however_many_tasks_it_has() -> None:
    async with running(workers=0) as none:
        job = await none.submit(["true"], [str(number) for number in range(200)])
        await none.jobs.cancel(job)
        await eventually_async(lambda: not none.jobs._following)
        assert none.reported.count(record_name(job)) <= 3


async def test_a_task_that_has_ended_is_kept_once_and_before_the_record_that_says_so() -> None:
    async with running() as found:
        job = await found.submit(["echo", "done"])
        await found.over(job)
        await eventually_async(lambda: not found.jobs._following)
        record, output = record_name(job), output_name(job, 0)
        # The first one is of its submission; one may be of its begin.
        assert [name for name in found.reported if name == output] == [output]
        assert found.reported[-2:] == [output, record]


async def test_small_jobs_dont_have_the_record_of_a_large_one_kept_more_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jobs, "_PAUSE_SECONDS", 0.01)
    reported: Counter[str] = Counter()

    def report(event: str, **facts: Any) -> None:
        reported[facts["name"]] += 1

    records = JobRecords(report)
    large = JobTable(some_job(("x",) * 10_000))
    large.begin(0, host="i-1", at=AT)
    records.note(large)
    for _ in range(5):
        small = JobTable(some_job(None))
        object.__setattr__(small.job, "id", "20261124T153000Z-0000000")
        number = small.begin(0, host="i-1", at=AT)
        assert number is not None
        records.note(small)
        await asyncio.sleep(0.03)
        small.end(0, number, 0, at=AT)
        records.note(small)
    assert reported[record_name(large.job.id)] == 0
    assert reported[record_name(small.job.id)] == 10
    # At the end all that has changed is kept.
    records.flush()
    assert reported[record_name(large.job.id)] == 1
    records.flush()
    assert reported[record_name(large.job.id)] == 1


async def test_what_still_runs_when_the_scheduler_closes_leaves_what_it_has_written() -> None:
    async with running() as found:
        job = await found.submit(["sh", "-c", "echo so far; sleep 60"])
        await eventually_async(lambda: bool(found.jobs._jobs[job].output(0).end))
        await found.jobs.close()
        assert found.kept[output_name(job, 0)]["pieces"] == [[1, "c28gZmFyCg=="]]


async def test_nothing_is_kept_of_a_task_that_has_written_nothing() -> None:
    async with running() as found:
        job = await found.submit(["true"])
        await found.over(job)
        await eventually_async(lambda: not found.jobs._following)
        assert set(found.reported) == {record_name(job)}
