"""Jobs' records, which clients submit and the scheduler's process updates.

A record that a client reads comes from a host that runs tasks' code: it is read strictly, and its
texts are shown without control characters.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from terradask_host.document_fields import fields_of
from terradask_host.documents import plain_lines
from terradask_host.rules.job_tasks import NAMES_OF_STATES, NO_EXIT_CODE, JobTask, worst

FORMAT = 1

#: Operations for workers, and the one by which the scheduler makes a worker end a job's tasks.
BEGIN_OPERATION = "terradask_job_begin"
TELL_OPERATION = "terradask_job_tell"
END_OPERATION = "terradask_job_end"
STOP_OPERATION = "terradask_job_stop"

JOB_ID = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{7}", re.ASCII)

MOST_TASKS = 10_000
#: Limits of the command with its environment variables, of one input, and of all inputs.
MOST_COMMAND_BYTES = 64 * 2**10
MOST_INPUT_BYTES = 4 * 2**10
MOST_INPUTS_BYTES = 4 * 2**20
#: Limit of a job's packed files, which Dask carries to the workers.
MOST_FILES_BYTES = 16 * 2**20
MOST_RETRIES = 100

#: Limits of a job's stored objects, packed and unpacked.
MOST_KEPT_BYTES = 8 * 2**20
MOST_KEPT_BYTES_UNPACKED = 64 * 2**20

#: Placeholder of a task's input in its command.
PLACEHOLDER = "{}"


@dataclass(frozen=True)
class JobRecord:
    """The record of a job, also after its cluster is stopped or gone.

    Parameters
    ----------
    cluster
        The cluster's name.
    id
        The job's id.
    run_id, boot
        The run, and its scheduler's process, that have the job.
    command
        Program and arguments.
    environ
        Names of its environment variables.
    retries
        Number of further tries of a task that fails.
    timeout_seconds
        Longest time of a try.
    submitted_at, ended_at
        Times in UTC.
    is_lost
        Whether it never ended, and its scheduler's process is gone.
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
        """Name of the job for the command line: ``CLUSTER/ID``."""
        return f"{self.cluster}/{self.id}"

    @property
    def counts(self) -> dict[str, int]:
        """State -> number of tasks."""
        counted = Counter(task.state for task in self.tasks)
        return {state: counted[state] for state in NAMES_OF_STATES}

    @property
    def is_over(self) -> bool:
        """Whether none of its tasks runs or will run."""
        return self.is_lost or all(task.is_final for task in self.tasks)

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
        code = worst(self.tasks)
        return max(code, NO_EXIT_CODE) if self.is_lost else code

    @property
    def command_line(self) -> str:
        """The command as a shell command line."""
        return str(plain_lines(shlex.join(self.command)))

    def to_document(self) -> dict[str, Any]:
        """Return the record's submitted and stored form."""
        inputs = [task.input for task in self.tasks]
        others = ("cluster", "id", "is_lost", "tasks")
        return {
            "format": FORMAT,
            "job": self.id,
            **{name: value for name, value in vars(self).items() if name not in others},
            "command": list(self.command),
            "environ": list(self.environ),
            "inputs": None if inputs == [None] else inputs,
            "columns": _COLUMNS,
            "tasks": [[getattr(task, name) for name in _COLUMNS] for task in self.tasks],
        }

    @staticmethod
    def read(document: Mapping[str, Any], cluster: str) -> JobRecord:
        """Return a document's record without control characters. Raises one of `UNREADABLE`."""
        return job_of(plain_lines(document), cluster)


def job_of(document: Mapping[str, Any], cluster: str) -> JobRecord:
    """Return a document's unchanged record, to be run. Raises one of `UNREADABLE`."""
    if document["format"] != FORMAT:
        raise ValueError("another format")
    columns, rows, inputs = document["columns"], document["tasks"], document["inputs"]
    if isinstance(inputs, str):
        raise TypeError("a string instead of a list of strings")
    inputs = [None] if inputs is None else inputs
    if not len(inputs) == len(rows) <= MOST_TASKS:
        raise ValueError("another number of tasks")
    values = {
        **document,
        "cluster": cluster,
        "id": document["job"],
        "is_lost": False,
        "tasks": tuple(
            _task({"index": index, "input": given}, zip(columns, row, strict=True))
            for index, (given, row) in enumerate(zip(inputs, rows, strict=True))
        ),
    }
    return JobRecord(**fields_of(JobRecord, values))


def state_of(counts: Mapping[str, int]) -> str:
    """Return the state of a job from its tasks' counts by state."""
    if counts["running"]:
        return "running"
    if counts["pending"]:
        done = counts["succeeded"] + counts["failed"] + counts["cancelled"]
        return "running" if done else "pending"
    return next((state for state in ("failed", "cancelled") if counts[state]), "succeeded")


#: Columns of a record's table of tasks.
_COLUMNS = [one.name for one in fields(JobTask) if one.name not in ("index", "input")]


def _task(given: dict[str, Any], row: Iterable[tuple[str, Any]]) -> JobTask:
    # A newer host may have more.
    task = JobTask(**fields_of(JobTask, {**dict(row), **given}))
    if task.state not in NAMES_OF_STATES:
        raise ValueError("an unknown state")
    return task


def record_name(job: str) -> str:
    """Return the name of a job's record, below its cluster's prefix."""
    return f"{job}/job.json.gz"


def output_name(job: str, index: int) -> str:
    """Return the name of a task's output."""
    return f"{job}/{index}.output.json.gz"


_KEPT = re.compile(rf"({JOB_ID.pattern})/(job|\d{{1,5}}\.output)\.json\.gz", re.ASCII)


def is_kept_name(name: str) -> bool:
    """Return whether a job's object can have this name."""
    return _KEPT.fullmatch(name) is not None


#: Commands can't contain NUL. Surrogates are bytes that aren't UTF-8: Dask can't send them.
_UNSENDABLE = re.compile("[\0\ud800-\udfff]")


def problem_of(job: JobRecord, environ: Mapping[str, str]) -> str | None:
    """Return why a job can't run with its environment variables; None if it can."""
    inputs = [task.input for task in job.tasks if task.input is not None]
    command = [*job.command, *environ, *environ.values()]
    checks = (
        (not JOB_ID.fullmatch(job.id), "its id is invalid"),
        (not job.command or not job.command[0], "it has no command"),
        (_bytes(command) > MOST_COMMAND_BYTES, f"its command has over {MOST_COMMAND_BYTES} bytes"),
        (not job.tasks, "it has no inputs"),
        (len(job.tasks) > MOST_TASKS, f"it has over {MOST_TASKS} tasks"),
        (
            any(_bytes([one]) > MOST_INPUT_BYTES for one in inputs),
            f"an input has over {MOST_INPUT_BYTES} bytes",
        ),
        (_bytes(inputs) > MOST_INPUTS_BYTES, f"its inputs have over {MOST_INPUTS_BYTES} bytes"),
        (
            any(map(_UNSENDABLE.search, (*command, *inputs))),
            "a NUL, or a byte that isn't UTF-8, is in its command, inputs or environment variables",
        ),
        (not 0 <= job.retries <= MOST_RETRIES, f"its retries aren't 0 to {MOST_RETRIES}"),
        (
            job.timeout_seconds is not None and not job.timeout_seconds > 0,
            "its timeout isn't above zero",
        ),
    )
    return next((problem for is_wrong, problem in checks if is_wrong), None)


def _bytes(texts: Sequence[str]) -> int:
    return sum(len(text.encode(errors="surrogatepass")) for text in texts)
