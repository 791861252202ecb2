"""The tasks of a job: their state when they begin, end or are lost; pure.

A task may run more than once, because AWS interrupts hosts; only this module decides what is
recorded.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, replace

#: Exit code of a command that ran out of time, as of ``timeout(1)``.
TIMED_OUT = 124
#: Exit code of a task without a known one.
NO_EXIT_CODE = 125
#: Exit code of a task cancelled before it had one: 128 + SIGTERM.
CANCELLED = 143

#: Lost hosts after which a task is given up: it may be what kills its hosts.
MOST_INTERRUPTIONS = 20


class TaskState(enum.StrEnum):
    """The state of a job's task."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


#: In display order.
NAMES_OF_STATES = tuple(state.value for state in TaskState)

FINAL = frozenset({TaskState.SUCCEEDED, TaskState.FAILED, TaskState.CANCELLED})


@dataclass(frozen=True)
class JobTask:
    """The record of one task of a job.

    Parameters
    ----------
    index
        Its number, from 0 on.
    input
        Its input; None for a job without inputs.
    tries
        Number of tries that have begun. Only the end of the last one counts.
    failures
        Number of tries that ended with an exit code other than 0.
    interruptions
        Number of tries that ended with their host, or with its Dask worker.
    exit_code
        Of the last try that ended.
    host
        Instance of the last try.
    started_at, ended_at
        Of the last try, in UTC.
    why
        Reason for its state, if there is one.
    """

    index: int
    input: str | None = None
    state: str = TaskState.PENDING.value
    tries: int = 0
    failures: int = 0
    interruptions: int = 0
    exit_code: int | None = None
    host: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    why: str | None = None

    @property
    def is_final(self) -> bool:
        """Whether its state is final."""
        return self.state in FINAL


def begin(task: JobTask, *, host: str, at: str) -> JobTask | None:
    """Return the task with one try more; None if it may not run (again).

    A task that is still marked as running has lost its worker: its previous try no longer counts.
    """
    if task.is_final:
        return None
    if task.state == TaskState.RUNNING:
        task = lose(task, "its worker was lost", at=at)
        if task.is_final:
            return None
    return replace(
        task,
        state=TaskState.RUNNING,
        tries=task.tries + 1,
        host=host,
        started_at=at,
        ended_at=None,
        why=None,
    )


def end(
    task: JobTask,
    number: int,
    exit_code: int,
    *,
    retries: int,
    at: str,
    why: str | None = None,
    is_cancelling: bool = False,
) -> JobTask:
    """Return the task after the end of its try `number`; an earlier try is ignored."""
    if task.state != TaskState.RUNNING or number != task.tries:
        return task
    ended = replace(task, exit_code=exit_code, ended_at=at, why=why)
    if exit_code == 0:
        return replace(ended, state=TaskState.SUCCEEDED)
    ended = replace(ended, failures=task.failures + 1)
    if is_cancelling:
        return replace(ended, state=TaskState.CANCELLED)
    return replace(
        ended, state=TaskState.PENDING if ended.failures <= retries else TaskState.FAILED
    )


def lose(task: JobTask, why: str, *, at: str, is_cancelling: bool = False) -> JobTask:
    """Return the task after the loss of its host or worker, or after Dask gave its try up."""
    if task.is_final:
        return task
    lost = replace(task, interruptions=task.interruptions + 1, ended_at=at, why=why)
    if is_cancelling:
        return replace(lost, state=TaskState.CANCELLED)
    if lost.interruptions > MOST_INTERRUPTIONS:
        return replace(
            lost,
            state=TaskState.FAILED,
            why=f"interrupted {lost.interruptions} times; the last time: {why}",
        )
    return replace(lost, state=TaskState.PENDING)


def cancel(task: JobTask, *, at: str) -> JobTask:
    """Return a task that isn't to run (again); a running one is ended first."""
    if task.state != TaskState.PENDING:
        return task
    return replace(task, state=TaskState.CANCELLED, ended_at=at, why="cancelled")


def give_up(task: JobTask, why: str, *, at: str) -> JobTask:
    """Return a task that can't run at all."""
    if task.is_final:
        return task
    return replace(task, state=TaskState.FAILED, ended_at=at, why=why)


def worst(tasks: Iterable[JobTask]) -> int:
    """Return the exit code of the worst task: 0 if all have succeeded."""
    codes = (_code(task) for task in tasks if task.state != TaskState.SUCCEEDED)
    return max(codes, default=0)


def _code(task: JobTask) -> int:
    return task.exit_code or (CANCELLED if task.state == TaskState.CANCELLED else NO_EXIT_CODE)
