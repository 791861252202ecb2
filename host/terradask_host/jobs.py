"""Jobs as clients submit them, and as their records are kept: what both ends read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

from terradask_host.document_fields import typed

FORMAT = 1

#: What workers rely on, and the one by which the scheduler has a worker end a job's tasks.
BEGIN_OPERATION = "terradask_job_begin"
TELL_OPERATION = "terradask_job_tell"
END_OPERATION = "terradask_job_end"
STOP_OPERATION = "terradask_job_stop"

JOB_ID = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{7}", re.ASCII)

MOST_TASKS = 10_000
#: Of the command and its environment variables together, of one input, and of all inputs.
MOST_COMMAND_BYTES = 64 * 2**10
MOST_INPUT_BYTES = 4 * 2**10
MOST_INPUTS_BYTES = 4 * 2**20
#: Of the files that a job brings along, packed: Dask carries them to the workers.
MOST_FILES_BYTES = 16 * 2**20
MOST_RETRIES = 100

#: Of a task's output that is kept, the newest: with many tasks less of each.
MOST_OUTPUT_BYTES = 4 * 2**20
LEAST_OUTPUT_BYTES = 64 * 2**10
_ALL_OUTPUT_BYTES = 64 * 2**20

#: Largest object that is kept of a job, packed, and what its content may have.
MOST_KEPT_BYTES = 8 * 2**20
MOST_KEPT_BYTES_UNPACKED = 64 * 2**20

#: States of a task; the last three are final.
NAMES_OF_STATES = ("pending", "running", "succeeded", "failed", "cancelled")

#: What stands for a task's input in its command.
PLACEHOLDER = "{}"


@dataclass(frozen=True)
class JobSpec:
    """What is to run.

    Parameters
    ----------
    id
        Such as ``20261124T153000Z-1f3a9c4``.
    run_id, boot
        The run, and the scheduler's process of it, that the job is submitted to.
    command
        Program and arguments. No shell reads them.
    inputs
        One for each task; None: one task without an input.
    environ
        Environment variables of each task; the record has their names alone.
    retries
        How often a task is tried again that ended with an exit code other than 0.
    timeout_seconds
        How long a try may take; None: for ever.
    grace_seconds
        How long a command may take to end after SIGTERM.
    resources
        Dask's resources that a task needs.
    submitted_at
        Time in UTC.
    """

    id: str
    run_id: str
    boot: int
    command: tuple[str, ...]
    submitted_at: str
    inputs: tuple[str, ...] | None = None
    environ: Mapping[str, str] = field(default_factory=dict)
    retries: int = 0
    timeout_seconds: float | None = None
    grace_seconds: float = 10.0
    resources: Mapping[str, float] = field(default_factory=dict)

    @property
    def number_of_tasks(self) -> int:
        """How many tasks it has."""
        return 1 if self.inputs is None else len(self.inputs)

    @property
    def output_bytes(self) -> int:
        """How much of each task's output is kept."""
        each = _ALL_OUTPUT_BYTES // self.number_of_tasks
        return max(LEAST_OUTPUT_BYTES, min(MOST_OUTPUT_BYTES, each))

    def input(self, index: int) -> str | None:
        """Return the input of a task."""
        return None if self.inputs is None else self.inputs[index]

    def command_of(self, index: int) -> list[str]:
        """Return a task's command: `PLACEHOLDER` in any argument stands for its input."""
        given = self.input(index)
        if given is None:
            return list(self.command)
        return [part.replace(PLACEHOLDER, given) for part in self.command]

    def environ_of(self, index: int, number: int) -> dict[str, str]:
        """Return the environment variables of a task's try."""
        given = self.input(index)
        return {
            **self.environ,
            "TERRADASK_JOB": self.id,
            "TERRADASK_TASK_INDEX": str(index),
            "TERRADASK_TASK_TRY": str(number),
            **({} if given is None else {"TERRADASK_TASK_INPUT": given}),
        }

    def to_document(self) -> dict[str, Any]:
        """Return it as it is submitted."""
        return asdict(self)

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Return a document's job. Raises one of `UNREADABLE`."""
        values = {one.name: document[one.name] for one in fields(cls) if one.name in document}
        for name in ("command", "inputs"):
            if isinstance(values.get(name), Sequence) and not isinstance(values[name], str):
                values[name] = tuple(values[name])
        spec = cls(**typed(cls, values))
        problem = problem_of(spec)
        if problem is not None:
            raise ValueError(problem)
        return spec


def record_name(job: str) -> str:
    """Return the name of a job's record, behind what its cluster's begin with."""
    return f"{job}/job.json.gz"


def output_name(job: str, index: int) -> str:
    """Return the name of what a task has written."""
    return f"{job}/{index}.output.json.gz"


_KEPT = re.compile(rf"({JOB_ID.pattern})/(job|\d{{1,5}}\.output)\.json\.gz", re.ASCII)


def is_kept_name(name: str) -> bool:
    """Return whether a job's object can have this name."""
    return _KEPT.fullmatch(name) is not None


#: No command can have a NUL. Surrogates stand for bytes that aren't UTF-8: Dask can't send them.
_UNSENDABLE = re.compile("[\0\ud800-\udfff]")


def problem_of(spec: JobSpec) -> str | None:
    """Return why a job can't run as it is; None if it can."""
    inputs = spec.inputs
    command = [*spec.command, *spec.environ, *spec.environ.values()]
    checks = (
        (not JOB_ID.fullmatch(spec.id), "its id isn't one"),
        (not spec.command or not spec.command[0], "it has no command"),
        (_bytes(command) > MOST_COMMAND_BYTES, f"its command has over {MOST_COMMAND_BYTES} bytes"),
        (inputs is not None and not inputs, "it has no inputs"),
        (spec.number_of_tasks > MOST_TASKS, f"it has over {MOST_TASKS} tasks"),
        (
            any(_bytes([one]) > MOST_INPUT_BYTES for one in inputs or ()),
            f"an input has over {MOST_INPUT_BYTES} bytes",
        ),
        (
            _bytes(inputs or ()) > MOST_INPUTS_BYTES,
            f"its inputs have over {MOST_INPUTS_BYTES} bytes",
        ),
        (
            any(map(_UNSENDABLE.search, (*command, *(inputs or ())))),
            "a NUL, or a byte that isn't UTF-8, is in its command, inputs or environment variables",
        ),
        (not 0 <= spec.retries <= MOST_RETRIES, f"its retries aren't 0 to {MOST_RETRIES}"),
        (
            spec.timeout_seconds is not None and not spec.timeout_seconds > 0,
            "its timeout isn't above zero",
        ),
        (not spec.grace_seconds >= 0, "its grace is below zero"),
    )
    return next((problem for is_wrong, problem in checks if is_wrong), None)


def _bytes(texts: Sequence[str]) -> int:
    return sum(len(text.encode(errors="surrogatepass")) for text in texts)
