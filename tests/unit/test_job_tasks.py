"""What becomes of a job's tasks, by table and by random histories."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terradask_host.documents import UNREADABLE
from terradask_host.jobs import JobRecord, job_of, problem_of
from terradask_host.rules import job_tasks
from terradask_host.rules.job_table import JobTable
from terradask_host.rules.job_tasks import MOST_INTERRUPTIONS, JobTask, TaskState

AT = "2026-11-24T15:30:00.000Z"
RUNNING = JobTask(0, None, TaskState.RUNNING, tries=1, host="i-1", started_at=AT)


def some_job(inputs: tuple[str, ...] | None = ("a", "b"), retries: int = 0) -> JobRecord:
    return JobRecord(
        *("etl", "20261124T153000Z-1f3a9c4", "20261124T150000Z-aaaaaa", 1, ("echo", "{}"), ()),
        *(retries, None, "2026-11-24T15:30:00Z", None),
        tasks=tuple(JobTask(index, each) for index, each in enumerate(inputs or [None])),
    )


@pytest.mark.parametrize(
    ("code", "retries", "failures", "state"),
    [
        (0, 0, 0, "succeeded"),
        (0, 2, 2, "succeeded"),
        (1, 0, 0, "failed"),
        (1, 1, 0, "pending"),
        (1, 1, 1, "failed"),
        (137, 5, 4, "pending"),
    ],
)
def test_a_tries_end_decides_by_its_code_and_the_retries_left(
    code: int, retries: int, failures: int, state: str
) -> None:
    task = replace(RUNNING, failures=failures)
    ended = job_tasks.end(task, 1, code, retries=retries, at=AT)
    assert (ended.state, ended.exit_code) == (state, code)


def test_a_task_that_has_succeeded_runs_no_more_and_stays_as_it_is() -> None:
    done = job_tasks.end(RUNNING, 1, 0, retries=3, at=AT)
    assert job_tasks.begin(done, host="i-2", at=AT) is None
    assert job_tasks.end(done, 1, 1, retries=3, at=AT) == done
    assert job_tasks.lose(done, "gone", at=AT) == done
    assert job_tasks.cancel(done, at=AT) == done
    assert job_tasks.give_up(done, "no", at=AT) == done


def test_a_try_that_was_replaced_counts_no_more() -> None:
    second = job_tasks.begin(RUNNING, host="i-2", at=AT)
    assert second is not None
    assert (second.tries, second.interruptions, second.host) == (2, 1, "i-2")
    assert job_tasks.end(second, 1, 0, retries=0, at=AT) == second
    assert job_tasks.end(second, 2, 7, retries=0, at=AT).exit_code == 7


def test_interruptions_are_no_failures_but_have_an_end() -> None:
    task = JobTask(0)
    for _ in range(MOST_INTERRUPTIONS):
        begun = job_tasks.begin(task, host="i-1", at=AT)
        assert begun is not None
        task = job_tasks.lose(begun, "its worker was lost", at=AT)
    assert (task.state, task.failures) == ("pending", 0)
    begun = job_tasks.begin(task, host="i-1", at=AT)
    assert begun is not None
    task = job_tasks.lose(begun, "its worker was lost", at=AT)
    assert (task.state, task.exit_code) == ("failed", None)
    assert task.why == "interrupted 21 times; the last time: its worker was lost"


def test_a_cancelled_job_begins_nothing_more_and_what_runs_is_cancelled_by_its_end() -> None:
    table = JobTable(some_job(("a", "b", "c"), retries=5))
    first = table.begin(0, host="i-1", at=AT)
    second = table.begin(1, host="i-2", at=AT)
    assert table.cancel(at=AT) == [0, 1]
    assert not table.is_over
    assert table.begin(2, host="i-1", at=AT) is None
    assert first is not None
    assert second is not None
    table.end(0, first, 143, at=AT, why="cancelled")
    table.lose(1, "its worker was lost", at=AT)
    assert [task.state for task in table.tasks] == ["cancelled"] * 3
    assert table.is_over
    assert table.exit_code == 143


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        ([], 0),
        ([("succeeded", 0), ("succeeded", 0)], 0),
        ([("succeeded", 0), ("failed", 3), ("failed", 1)], 3),
        ([("failed", None)], 125),
        ([("cancelled", None), ("failed", 1)], 143),
        ([("cancelled", 0), ("succeeded", 0)], 143),
        ([("failed", 137), ("cancelled", None)], 143),
    ],
)
def test_the_exit_code_is_the_worst_tasks(
    outcomes: list[tuple[str, int | None]], code: int
) -> None:
    tasks = [JobTask(0, None, state, exit_code=each) for state, each in outcomes]
    assert job_tasks.worst(tasks) == code


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["begin", "end", "stale", "lose", "cancel"]),
        st.integers(0, 2),
        st.sampled_from([0, 0, 0, 1, 137]),
    ),
    max_size=200,
)


@given(EVENTS, st.integers(0, 3))
def test_whatever_happens_each_task_has_one_end_and_one_recorded_success(
    events: list[tuple[str, int, int]], retries: int
) -> None:
    table = JobTable(some_job(("a", "b", "c"), retries=retries))
    ends: dict[int, list[JobTask]] = {0: [], 1: [], 2: []}
    versions = [table.version]
    for what, index, code in events:
        before = table.tasks[index]
        if what == "begin":
            number = table.begin(index, host="i-1", at=AT)
            assert number is None or not before.is_final
            assert not (table.is_cancelling and number is not None)
        elif what == "end":
            table.end(index, before.tries, code, at=AT)
        elif what == "stale":
            table.end(index, before.tries - 1, 0, at=AT)
            assert table.tasks[index] == before
        elif what == "lose":
            table.lose(index, "gone", at=AT)
        elif code == 137:
            table.cancel(at=AT)
        after = table.tasks[index]
        if after.is_final and after not in ends[index]:
            ends[index].append(after)
        assert not before.is_final or after == before
        assert after.failures <= retries + 1
        assert after.interruptions <= MOST_INTERRUPTIONS + 1
        versions.append(table.version)
    assert versions == sorted(versions)
    assert all(len(found) <= 1 for found in ends.values())
    assert table.is_over == all(task.is_final for task in table.tasks)
    assert (table.exit_code is None) == (not table.is_over)


def test_an_input_stands_in_the_command_and_in_a_variable() -> None:
    one = JobTable(some_job(("x y", "b")))
    assert one.begin(0, host="i-1", at=AT) == 1
    assert one.begin(0, host="i-2", at=AT) == 2
    assert one.command_of(0) == ["echo", "x y"]
    assert one.environ_of(0) == {
        "TERRADASK_JOB": one.job.id,
        "TERRADASK_TASK_INDEX": "0",
        "TERRADASK_TASK_TRY": "2",
        "TERRADASK_TASK_INPUT": "x y",
    }
    alone = JobTable(some_job(None))
    assert alone.command_of(0) == ["echo", "{}"]
    assert "TERRADASK_TASK_INPUT" not in alone.environ_of(0)


def test_many_tasks_keep_less_output_each() -> None:
    assert JobTable(some_job(None)).output_bytes == 4 * 2**20
    assert JobTable(some_job(tuple("x" * 100))).output_bytes == 64 * 2**20 // 100
    assert JobTable(some_job(tuple("x" * 10_000))).output_bytes == 64 * 2**10


def test_what_is_submitted_reads_as_it_was_with_each_character() -> None:
    job = replace(some_job(("a\x1b\n", "b")), command=("sh", "-c", "echo 1\necho\t2"))
    assert job_of(job.to_document(), "etl") == job


@pytest.mark.parametrize(
    "change",
    [
        {"job": "../x"},
        {"command": []},
        {"command": [""]},
        {"command": "echo"},
        {"command": ["a\0b"]},
        {"command": ["\udcff"]},
        {"values": {"A": "\udcff"}},
        {"command": ["x" * 70_000]},
        {"inputs": []},
        {"inputs": ["x"] * 10_001},
        {"inputs": ["x" * 5_000]},
        {"inputs": [1]},
        {"inputs": "abc"},
        {"retries": 101},
        {"retries": -1},
        {"retries": True},
        {"timeout_seconds": 0},
        {"timeout_seconds": float("nan")},
        {"tasks": []},
        {"environ": [1]},
        {"boot": "1"},
    ],
)
def test_a_job_that_cant_run_is_refused(change: dict[str, Any]) -> None:
    document = some_job().to_document()
    assert _problem(document, {}) is None
    values = change.get("values", {})
    rows = document["tasks"][:1] * len(change.get("inputs", "ab"))
    assert _problem({**document, "tasks": rows, **change}, values) is not None


def _problem(document: dict[str, Any], values: dict[str, str]) -> str | None:
    try:
        return problem_of(job_of(document, "etl"), values)
    except UNREADABLE as error:
        return type(error).__name__
