"""What is submitted: a job's command and inputs, checked before anything is made."""

from __future__ import annotations

import datetime
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from terradask._common.clock import utc_text
from terradask.errors import InvalidInput
from terradask_host.jobs import MOST_TASKS, PLACEHOLDER, JobSpec, problem_of


@dataclass(frozen=True)
class JobRequest:
    """A job that isn't submitted yet."""

    command: tuple[str, ...]
    inputs: tuple[str, ...] | None
    environ: Mapping[str, str]
    retries: int
    timeout_seconds: float | None
    resources: Mapping[str, float]
    packed: bytes | None = None

    def spec(self, run_id: str, boot: int) -> JobSpec:
        """Return it for a run of a cluster, with an id of its own."""
        now = datetime.datetime.now(datetime.UTC)
        return JobSpec(
            # In the order of submission, also within a second.
            id=f"{now:%Y%m%dT%H%M%SZ}-{now.microsecond // 1000:03x}{secrets.token_hex(2)}",
            run_id=run_id,
            boot=boot,
            command=self.command,
            submitted_at=utc_text(now),
            inputs=self.inputs,
            environ=dict(self.environ),
            retries=self.retries,
            timeout_seconds=self.timeout_seconds,
            resources=dict(self.resources),
        )


def job_request(
    command: Sequence[str],
    inputs: Sequence[Any] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    retries: int = 0,
    timeout_seconds: float | None = None,
    resources: Mapping[str, float] | None = None,
    packed: bytes | None = None,
) -> JobRequest:
    """Return what is to run. Raises `InvalidInput`."""
    if isinstance(command, str) or not all(isinstance(part, str) for part in command):
        raise InvalidInput(
            "A command is a list of a program and its arguments.",
            given=repr(command)[:200],
            allowed='a list of texts, such as ["python", "train.py"]',
            advice='for a shell\'s line, pass ["sh", "-c", line]',
        )
    request = JobRequest(
        tuple(command),
        None if inputs is None else tuple(str(each) for each in inputs),
        dict(environ or {}),
        retries,
        timeout_seconds,
        {name: float(amount) for name, amount in (resources or {}).items()},
        packed,
    )
    problem = problem_of(request.spec("", 0))
    if problem is not None:
        raise InvalidInput(
            f"The job can't run as it is: {problem}.",
            given=f"{len(request.command)} words, {len(request.inputs or ())} inputs",
            allowed="what docs/jobs.md lists under Limits",
            advice="put large inputs and data into S3, and pass their names",
        )
    return request


def array(text: str) -> list[str]:
    """Return the inputs of an array: ``0-99``, ``5``, ``1-3,7``. Raises `InvalidInput`."""
    found: list[str] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise _no_array(text)
        start, end = int(first), int(last or first)
        if end < start or end - start >= MOST_TASKS:
            raise _no_array(text)
        found += map(str, range(start, end + 1))
    return found


def _no_array(text: str) -> InvalidInput:
    return InvalidInput(
        "This isn't an array of tasks.",
        given=text,
        allowed=f"numbers and ranges, up to {MOST_TASKS} in all: 0-99 or 1-3,7",
        advice=f"each number stands where {PLACEHOLDER} is in the command",
    )
