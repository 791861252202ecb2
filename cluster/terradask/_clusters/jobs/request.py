"""Check a job's command and inputs, and build the request that submits them."""

from __future__ import annotations

import datetime
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from terradask._common.clock import utc_text
from terradask.errors import InvalidInput
from terradask_host.commands import SubmitJob
from terradask_host.jobs import MOST_TASKS, PLACEHOLDER, JobRecord, problem_of
from terradask_host.rules.job_tasks import JobTask


def job_request(
    command: Sequence[str],
    inputs: Sequence[Any] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    retries: int = 0,
    timeout_seconds: float | None = None,
    resources: Mapping[str, float] | None = None,
    packed: bytes | None = None,
) -> SubmitJob:
    """Return a job's request, without the ids of a run. Raises `InvalidInput`."""
    if isinstance(command, str) or not all(isinstance(part, str) for part in command):
        raise InvalidInput(
            "A command must be a list of a program and its arguments.",
            given=repr(command)[:200],
            allowed='a list of strings, such as ["python", "train.py"]',
            advice='for a shell\'s line, pass ["sh", "-c", line]',
        )
    given = [None] if inputs is None else [str(each) for each in inputs]
    environ = dict(environ or {})
    record = JobRecord(
        cluster="",
        id=_new_id(now := datetime.datetime.now(datetime.UTC)),
        run_id="",
        boot=0,
        command=tuple(command),
        environ=tuple(sorted(environ)),
        retries=retries,
        timeout_seconds=timeout_seconds,
        submitted_at=utc_text(now),
        ended_at=None,
        tasks=tuple(JobTask(index, each) for index, each in enumerate(given)),
    )
    problem = problem_of(record, environ)
    if problem is not None:
        raise InvalidInput(
            f"The job can't run as it is: {problem}.",
            given=f"{len(command)} words, {len(inputs or ())} inputs",
            allowed="the limits in docs/jobs.md",
            advice="put large inputs and data into S3, and pass their names",
        )
    amounts = {name: float(amount) for name, amount in (resources or {}).items()}
    return SubmitJob(record.to_document(), environ, amounts, packed)


def for_submission(request: SubmitJob, run_id: str, boot: int) -> SubmitJob:
    """Return a request to submit now to a run, with a new id."""
    now = datetime.datetime.now(datetime.UTC)
    own = {"job": _new_id(now), "run_id": run_id, "boot": boot, "submitted_at": utc_text(now)}
    return replace(request, document={**request.document, **own})


def _new_id(now: datetime.datetime) -> str:
    # Sorts by time of submission, even within a second.
    return f"{now:%Y%m%dT%H%M%SZ}-{now.microsecond // 1000:03x}{secrets.token_hex(2)}"


def parse_array(text: str) -> list[str]:
    """Return the inputs of an array: ``0-99``, ``5``, ``1-3,7``. Raises `InvalidInput`."""
    found: list[str] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise _array_error(text)
        start, end = int(first), int(last or first)
        if end < start or end - start >= MOST_TASKS:
            raise _array_error(text)
        found += map(str, range(start, end + 1))
    return found


def _array_error(text: str) -> InvalidInput:
    return InvalidInput(
        "This isn't an array of tasks.",
        given=text,
        allowed=f"numbers and ranges, up to {MOST_TASKS} in all: 0-99 or 1-3,7",
        advice=f"each number replaces {PLACEHOLDER} in the command",
    )
