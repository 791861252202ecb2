"""One job: its tasks, their states, and the next ones to run; pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from terradask_host.jobs import PLACEHOLDER, JobRecord
from terradask_host.rules import job_tasks
from terradask_host.rules.job_tasks import JobTask, TaskState

#: Limit of a task's kept output, the newest bytes; lower with many tasks.
MOST_OUTPUT_BYTES = 4 * 2**20
LEAST_OUTPUT_BYTES = 64 * 2**10
_ALL_OUTPUT_BYTES = 64 * 2**20


class JobTable:
    """A job's tasks from their begin on. `version` grows with each change."""

    def __init__(self, job: JobRecord) -> None:
        self.job = job
        self.tasks = [JobTask(task.index, task.input) for task in job.tasks]
        self.is_cancelling = False
        self.ended_at: str | None = None
        self.version = 1
        self._unfinished = len(self.tasks)

    @property
    def is_over(self) -> bool:
        """Whether all tasks are final."""
        return self._unfinished == 0

    @property
    def exit_code(self) -> int | None:
        """The exit code of the worst task; None while one may still run."""
        if not self.is_over:
            return None
        return job_tasks.worst(self.tasks)

    @property
    def output_bytes(self) -> int:
        """The limit of each task's kept output."""
        each = _ALL_OUTPUT_BYTES // len(self.tasks)
        return max(LEAST_OUTPUT_BYTES, min(MOST_OUTPUT_BYTES, each))

    def begin(self, index: int, *, host: str, at: str) -> int | None:
        """Begin a task; return the number of this try, or None if it may not run."""
        if self.is_cancelling:
            self._set(index, job_tasks.cancel(self.tasks[index], at=at), at)
            return None
        begun = job_tasks.begin(self.tasks[index], host=host, at=at)
        if begun is None:
            return None
        self._set(index, begun, at)
        return begun.tries

    def end(
        self, index: int, number: int, exit_code: int, *, at: str, why: str | None = None
    ) -> None:
        """End a try."""
        ended = job_tasks.end(
            self.tasks[index],
            number,
            exit_code,
            retries=self.job.retries,
            at=at,
            why=why,
            is_cancelling=self.is_cancelling,
        )
        self._set(index, ended, at)

    def lose(self, index: int, why: str, *, at: str) -> None:
        """Mark a task's try as lost."""
        lost = job_tasks.lose(self.tasks[index], why, at=at, is_cancelling=self.is_cancelling)
        self._set(index, lost, at)

    def give_up(self, why: str, *, at: str) -> None:
        """Give up all tasks that haven't ended."""
        for index, task in enumerate(self.tasks):
            self._set(index, job_tasks.give_up(task, why, at=at), at)

    def cancel(self, *, at: str) -> list[int]:
        """Cancel all tasks; return the running ones, which are to be ended."""
        self.is_cancelling = True
        for index, task in enumerate(self.tasks):
            self._set(index, job_tasks.cancel(task, at=at), at)
        return list(self.running())

    def running(self) -> Iterator[int]:
        """Yield the running tasks."""
        return (index for index, task in enumerate(self.tasks) if task.state == TaskState.RUNNING)

    def is_newest(self, index: int, number: int) -> bool:
        """Return whether a task's try runs, as far as is known, and is its newest."""
        task = self.tasks[index]
        return task.state == TaskState.RUNNING and task.tries == number

    def is_pending(self, index: int) -> bool:
        """Return whether a task is still to run (again)."""
        return self.tasks[index].state == TaskState.PENDING

    def command_of(self, index: int) -> list[str]:
        """Return a task's command, with `PLACEHOLDER` in arguments replaced by its input."""
        given = self.tasks[index].input
        if given is None:
            return list(self.job.command)
        return [part.replace(PLACEHOLDER, given) for part in self.job.command]

    def environ_of(self, index: int) -> dict[str, str]:
        """Return the environment variables that describe a task's try to it."""
        task = self.tasks[index]
        return {
            "TERRADASK_JOB": self.job.id,
            "TERRADASK_TASK_INDEX": str(index),
            "TERRADASK_TASK_TRY": str(task.tries),
            **({} if task.input is None else {"TERRADASK_TASK_INPUT": task.input}),
        }

    def record(self) -> JobRecord:
        """Return the record to be stored."""
        return replace(self.job, ended_at=self.ended_at, tasks=tuple(self.tasks))

    def _set(self, index: int, task: JobTask, at: str) -> None:
        before = self.tasks[index]
        if task == before:
            return
        self.tasks[index] = task
        self.version += 1
        self._unfinished -= int(task.is_final) - int(before.is_final)
        if self.is_over:
            self.ended_at = at
