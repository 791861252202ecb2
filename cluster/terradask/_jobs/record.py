"""What is recorded of a job. The record comes from a host that runs tasks' code: it is read
strictly, and its texts are shown without control characters.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from terradask_host.document_fields import typed
from terradask_host.documents import plain_lines
from terradask_host.jobs import FORMAT, MOST_TASKS, NAMES_OF_STATES
from terradask_host.rules import job_tasks


@dataclass(frozen=True)
class JobTask:
    """What is recorded of one task of a job.

    Parameters
    ----------
    index
        Its number, from 0 on.
    input
        What stands for ``{}`` in its command; None for a job without inputs.
    state
        ``pending``, ``running``, ``succeeded``, ``failed`` or ``cancelled``.
    tries
        How often it has begun.
    failures
        How many of its tries ended with an exit code other than 0.
    interruptions
        How many of them ended with their host, or with its Dask worker.
    exit_code
        Of the last try that ended.
    host
        Instance of the last try.
    started_at, ended_at
        Of the last try, in UTC.
    why
        Why it is as it is, if there is more to say.
    """

    index: int
    input: str | None
    state: str
    tries: int
    failures: int
    interruptions: int
    exit_code: int | None
    host: str | None
    started_at: str | None
    ended_at: str | None
    why: str | None


@dataclass(frozen=True)
class JobRecord:
    """What is recorded of a job, also when its cluster is stopped or gone.

    Parameters
    ----------
    cluster
        The cluster's name.
    id
        The job's id.
    run_id, boot
        The run, and the scheduler's process of it, that have the job.
    command
        Program and arguments.
    environ
        Names of the environment variables that it was given.
    retries
        How often a task is tried again that fails.
    timeout_seconds
        How long a try may take.
    submitted_at, ended_at
        Times in UTC.
    is_lost
        Whether it never ended, and the scheduler's process that had it is gone.
    tasks
        The tasks.
    """

    cluster: str
    id: str
    run_id: str
    boot: int
    command: tuple[str, ...]
    environ: tuple[str, ...]
    retries: int
    timeout_seconds: float | None
    submitted_at: str
    ended_at: str | None
    is_lost: bool = False
    tasks: tuple[JobTask, ...] = field(default=(), repr=False)

    @property
    def name(self) -> str:
        """The name by which the command line knows it: ``CLUSTER/ID``."""
        return f"{self.cluster}/{self.id}"

    @property
    def counts(self) -> dict[str, int]:
        """How many tasks are in each state."""
        counted = Counter(task.state for task in self.tasks)
        return {state: counted[state] for state in NAMES_OF_STATES}

    @property
    def is_over(self) -> bool:
        """Whether nothing of it runs any more, nor will."""
        return self.is_lost or all(job_tasks.is_final(task.state) for task in self.tasks)

    @property
    def state(self) -> str:
        """``pending``, ``running``, ``succeeded``, ``failed``, ``cancelled`` or ``lost``."""
        return "lost" if self.is_lost else state_of(self.counts)

    @property
    def exit_code(self) -> int | None:
        """The exit code of the worst task: 0 if all succeeded, 125 for one without an exit code.
        None while one may still run.
        """
        if not self.is_over:
            return None
        worst = job_tasks.worst((task.state, task.exit_code) for task in self.tasks)
        return max(worst, job_tasks.NO_EXIT_CODE) if self.is_lost else worst

    @property
    def command_line(self) -> str:
        """The command as a shell would take it."""
        return str(plain_lines(shlex.join(self.command)))

    @classmethod
    def read(cls, document: Mapping[str, Any], cluster: str) -> Self:
        """Return a document's record. Raises one of `UNREADABLE`."""
        if document["format"] != FORMAT:
            raise ValueError("another format")
        columns, rows, inputs = document["columns"], document["tasks"], document["inputs"]
        if len(rows) > MOST_TASKS or (inputs is not None and len(inputs) != len(rows)):
            raise ValueError("another number of tasks")
        values = {
            **{one.name: document[one.name] for one in fields(cls) if one.name in document},
            "cluster": cluster,
            "id": document["job"],
            "is_lost": False,
            "command": tuple(document["command"]),
            "environ": tuple(document["environ"]),
            "tasks": tuple(
                _task(index, None if inputs is None else inputs[index], columns, row)
                for index, row in enumerate(rows)
            ),
        }
        return cls(**plain_lines(typed(cls, values)))


def state_of(counts: Mapping[str, int]) -> str:
    """Return the state of a job by how many of its tasks are in each."""
    if counts["running"]:
        return "running"
    if counts["pending"]:
        done = counts["succeeded"] + counts["failed"] + counts["cancelled"]
        return "running" if done else "pending"
    return next((state for state in ("failed", "cancelled") if counts[state]), "succeeded")


def _task(index: int, given: Any, columns: Any, row: Any) -> JobTask:
    known = {one.name for one in fields(JobTask)}
    # A newer host may say more.
    values = {name: value for name, value in zip(columns, row, strict=True) if name in known}
    values |= {"index": index, "input": given}
    if values["state"] not in NAMES_OF_STATES:
        raise ValueError("an unknown state")
    return JobTask(**plain_lines(typed(JobTask, values)))
