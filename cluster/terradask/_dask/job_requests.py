"""Jobs' requests to the scheduler, and what it or the bucket answers."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from terradask._clusters.jobs.store import JobOutput, read_pieces
from terradask._common.clock import utc_text
from terradask.errors import (
    ClusterClosed,
    ClusterStopped,
    EndpointUnreachable,
    JobLost,
    SchedulerReplaced,
    SchedulerUnreachable,
)
from terradask_host.commands import CancelJob, Command, ReadJob, ReadJobOutput, SubmitJob
from terradask_host.jobs import JobRecord

if TYPE_CHECKING:
    from terradask._clusters.deployment import Deployment
    from terradask._dask.connection import SchedulerConnection
    from terradask._dask.threads import Call

logger = logging.getLogger("terradask")

_WAIT_SECONDS = 15.0
_PAUSE_SECONDS = 2.0
#: Errors of commands to a scheduler that is gone.
_GONE = (ClusterClosed, ClusterStopped, SchedulerReplaced, SchedulerUnreachable, OSError)


@dataclass(eq=False, repr=False)
class JobRequests:
    """Submit jobs to one scheduler, and read their state and output."""

    connection: SchedulerConnection
    deployment: Deployment
    call: Call

    async def submit(self, request: SubmitJob) -> str:
        """Submit a job and return its id. Raises as `SchedulerConnection.send`."""
        attachment = self.connection.attachment
        command = for_submission(request, attachment.run.run_id, attachment.scheduler.boot)
        job = str(command.document["job"])
        try:
            await self.connection.send(command)
        except asyncio.CancelledError:
            # After Ctrl-C, the scheduler may have the job already.
            with contextlib.suppress(*_GONE):
                await self.cancel(job)
            raise
        return job

    async def record(self, job: str) -> JobRecord:
        """Return a job's record: the scheduler's, else the bucket's."""
        answer = await self._ask(ReadJob(job, rows=True))
        if answer is None:
            found: JobRecord = await self.call(self.deployment.job, job)
            return found
        return JobRecord.read(answer["record"], self.deployment.name)

    async def wait(self, job: str) -> JobRecord:
        """Wait for the end of a job and return its record. Raises `JobLost`."""
        while True:
            answer = await self._ask(ReadJob(job, wait_seconds=_WAIT_SECONDS))
            if answer is None:
                found = await self._recorded(job)
                if found is not None and found.is_lost:
                    counts = found.counts
                    left = counts["pending"] + counts["running"]
                    raise JobLost(self.deployment.name, job, left)
                if found is not None and found.is_over:
                    return found
                await asyncio.sleep(_PAUSE_SECONDS)
            elif answer["exit_code"] is not None:
                return await self.record(job)

    async def follow(self, job: str, index: int) -> AsyncIterator[JobOutput]:
        """Yield a task's output as it arrives, until the task has ended."""
        since, is_done = 0, False
        while not is_done:
            answer = await self._ask(ReadJobOutput(job, index, since, _WAIT_SECONDS))
            if answer is None:
                # In this order: the output of an ended task is stored.
                found = await self._recorded(job)
                if found is None or not _has_ended(found, index):
                    await asyncio.sleep(_PAUSE_SECONDS)
                    continue
                kept = await self.call(self.deployment.job_output, job, index)
                if kept is not None:
                    yield _output_after(kept, since)
                return
            if answer["pieces"] or answer["missed"]:
                yield JobOutput(read_pieces(answer["pieces"]), int(answer["missed"]))
            # An answer has a size limit: the rest of the output may need another one.
            is_done = bool(answer["is_final"]) and not answer["pieces"]
            since = int(answer["end"])

    async def output(self, job: str, index: int) -> JobOutput:
        """Return a task's output so far."""
        answer = await self._ask(ReadJobOutput(job, index))
        if answer is None:
            kept: JobOutput = await self.call(self.kept_output, job, index)
            return kept
        pieces, missed = list(read_pieces(answer["pieces"])), int(answer["missed"])
        while answer is not None and answer["pieces"]:
            answer = await self._ask(ReadJobOutput(job, index, int(answer["end"])))
            pieces += read_pieces(answer["pieces"]) if answer is not None else ()
        return JobOutput(tuple(pieces), missed)

    def kept_output(self, job: str, index: int) -> JobOutput:
        """Return a task's output as the bucket has it."""
        return self.deployment.job_output(job, index) or JobOutput(())

    async def cancel(self, job: str) -> None:
        """End a job."""
        await self.connection.send(CancelJob(job))

    async def _recorded(self, job: str) -> JobRecord | None:
        """Return a job's record from the bucket; None while the bucket is unreachable."""
        try:
            found: JobRecord = await self.call(self.deployment.job, job)
        except EndpointUnreachable as error:
            logger.warning("job %s: %s", job, error.problem)
            return None
        return found

    async def _ask(self, command: Command) -> Any:
        """Return the scheduler's answer; None if it doesn't know the job, or is gone."""
        with contextlib.suppress(*_GONE):
            return await self.connection.send(command)
        return None


def _has_ended(record: JobRecord, index: int) -> bool:
    """Return whether a task is final, or doesn't exist."""
    return record.is_over or not any(
        task.index == index and not task.is_final for task in record.tasks
    )


def _output_after(kept: JobOutput, since: int) -> JobOutput:
    """Return the part of a task's stored output after byte `since`."""
    pieces, at = [], kept.missed
    for stream, content in kept.pieces:
        rest = content[max(since - at, 0) :]
        at += len(content)
        if rest:
            pieces.append((stream, rest))
    return JobOutput(tuple(pieces), max(kept.missed - since, 0))


def for_submission(request: SubmitJob, run_id: str, boot: int) -> SubmitJob:
    """Return a request to submit now to a run, with a new id."""
    now = datetime.datetime.now(datetime.UTC)
    own = {"job": new_id(now), "run_id": run_id, "boot": boot, "submitted_at": utc_text(now)}
    return replace(request, document={**request.document, **own})


def new_id(now: datetime.datetime) -> str:
    """Return an id that sorts by time of submission, even within a second."""
    return f"{now:%Y%m%dT%H%M%SZ}-{now.microsecond // 1000:03x}{secrets.token_hex(2)}"
