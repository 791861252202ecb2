"""What the command line tells of a job that it waits for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from terradask.cli._job import PROGRESS_SECONDS, JobProgress, progress_line
from terradask_host.jobs import JobRecord
from terradask_host.rules.job_tasks import JobTask

TASKS = tuple(
    JobTask(index, str(index), state, tries=1)
    for index, state in enumerate(["succeeded", "running", "pending"])
)
RECORD = JobRecord("etl", "j", "r", 1, ("true",), (), 0, None, "2026", None, False, TASKS)


def over(*states: str) -> JobRecord:
    tasks = [replace(TASKS[0], state=state, exit_code=0) for state in states]
    return replace(RECORD, ended_at="2026", tasks=tuple(tasks))


def test_a_line_has_what_there_is() -> None:
    assert progress_line(RECORD) == "etl/j: running, 1/3 succeeded, 1 running"
    one = over("succeeded")
    assert progress_line(one) == "etl/j: succeeded, 1/1 succeeded"


def test_lines_come_at_times_and_once_and_the_last_one_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    progress = JobProgress()
    progress.report(RECORD)
    assert capsys.readouterr().err == ""
    now = PROGRESS_SECONDS
    progress.report(RECORD)
    progress.report(RECORD)
    assert capsys.readouterr().err == f"{progress_line(RECORD)}\n"
    done = over("succeeded", "succeeded")
    progress.report(done)
    progress.report(done)
    assert capsys.readouterr().err == f"{progress_line(done)}\n"
