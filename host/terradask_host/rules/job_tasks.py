"""The tasks of a job: what becomes of each when it begins, ends or is lost; pure.

A task may be run more than once, since AWS takes hosts back; what is recorded of it is decided
here, once.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, replace

#: Of a command that ran out of time, as of ``timeout(1)``.
TIMED_OUT = 124
#: Of a task of which no exit code is known.
NO_EXIT_CODE = 125
#: Of a task that was cancelled before it had one: 128 + SIGTERM.
CANCELLED = 143

#: So often a task's host may go before it is given up: it may be what kills its hosts.
MOST_INTERRUPTIONS = 20


class TaskState(enum.StrEnum):
    """What a task of a job is doing."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


#: In the order in which they are shown.
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
    state
        ``pending``, ``running``, ``succeeded``, ``failed`` or ``cancelled``.
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

    One that seems to run has lost its worker, or is cut off from it: the try before counts no more.
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
    """Return the task after its try `number` has ended; what an earlier try says counts no more."""
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
    """Return the task after its host or worker has gone, or Dask has given its try up."""
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
    """Return a task that isn't to run (again); one that runs is ended first."""
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
