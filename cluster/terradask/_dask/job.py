"""``Job``: a submitted command or set of commands, as users see it."""

from __future__ import annotations

import asyncio
import html
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from distributed.core import Status

from terradask._clusters.jobs.output import JobOutput, write_output
from terradask._dask.health import Health
from terradask._dask.job_requests import JobRequests
from terradask.errors import JobTimeout
from terradask_host.jobs import JobRecord
from terradask_host.rules.job_tasks import JobTask


@dataclass(eq=False, repr=False)
class Job:
    """A job of a cluster, from `Cluster.run_command`, `Cluster.map_commands` or `Cluster.job`. It
    goes on without this object and its client. After the `Cluster` object is closed, this reads the
    record.

    Attributes
    ----------
    id
        Id of the job.
    """

    id: str
    _requests: JobRequests
    _health: Health
    _sync: Callable[..., Any]
    _is_asynchronous: Callable[[], bool]

    @property
    def cluster(self) -> str:
        """The cluster's name."""
        return self._requests.deployment.name

    @property
    def name(self) -> str:
        """Name of the job for the command line: ``CLUSTER/ID``."""
        return f"{self.cluster}/{self.id}"

    def record(self) -> Any:
        """Return the job's record: state, exit code, and each task's state, tries, host and times.

        Returns
        -------
        JobRecord

        Raises
        ------
        JobNotFound
            When neither the scheduler nor the bucket has it any more.
        """
        return self._ask(self._requests.record, self._requests.deployment.job)

    @property
    def state(self) -> str:
        """``pending``, ``running``, ``succeeded``, ``failed``, ``cancelled`` or ``lost``. With
        ``asynchronous=True`` use `record`.
        """
        return str(self._record.state)

    @property
    def exit_code(self) -> int | None:
        """Exit code of the worst task, None while one may still run. With ``asynchronous=True`` use
        `record`.
        """
        return self._record.exit_code

    @property
    def tasks(self) -> tuple[JobTask, ...]:
        """The tasks, each with its state, tries, exit code, host and times. With
        ``asynchronous=True`` use `record`.
        """
        return self._record.tasks

    @property
    def _record(self) -> JobRecord:
        found: JobRecord = self.record()
        return found

    def wait(self, timeout: float | None = None) -> Any:
        """Wait until the job is over, and return the worst task's exit code: 0 if all have
        succeeded.

        Parameters
        ----------
        timeout
            Longest wait, in seconds. By default there is no limit.

        Raises
        ------
        JobTimeout
            When it isn't over by then; it goes on.
        JobLost
            When its scheduler is gone.
        """
        return self._sync(self._wait, timeout)

    async def _wait(self, timeout: float | None) -> int | None:
        try:
            async with asyncio.timeout(timeout):
                return (await self._requests.wait(self.id)).exit_code
        except TimeoutError as error:
            if timeout is None:
                raise
            raise JobTimeout(self.cluster, self.id, timeout) from error

    def logs(self, index: int = 0) -> Any:
        """Return the newest part of a task's output.

        Parameters
        ----------
        index
            Number of the task.

        Returns
        -------
        JobOutput
            Printed without control characters; ``of(1)`` and ``of(2)`` return the bytes of standard
            output and standard error.
        """
        deployment = self._requests.deployment
        return self._ask(
            lambda job: self._requests.output(job, index),
            lambda job: deployment.job_output(job, index) or JobOutput(()),
        )

    def follow(self, write: Callable[[int, bytes], object], index: int = 0) -> Any:
        """Call a function with a task's output as it comes, until the task has ended.

        Parameters
        ----------
        write
            Gets 1 for standard output or 2 for standard error, and bytes. It is called in the
            cluster's thread.
        index
            Number of the task.
        """
        return self._sync(self._follow, write, index)

    async def _follow(self, write: Callable[[int, bytes], object], index: int) -> None:
        async for output in self._requests.follow(self.id, index):
            write_output(output, write)

    def cancel(self) -> Any:
        """Cancel the job, without waiting for its end: running tasks get SIGTERM, and SIGKILL ten
        seconds later; no others begin. A finished job doesn't change.
        """
        self._health.check()
        return self._sync(self._requests.cancel, self.id)

    def _ask(self, ask: Callable[[str], Any], read: Callable[[str], Any]) -> Any:
        is_closed = self._health.status in (Status.closed, Status.closing)
        if is_closed and not self._is_asynchronous():
            return read(self.id)
        return self._sync(ask, self.id)

    def __repr__(self) -> str:
        if self._is_asynchronous():
            return f"Job({self.name!r})"
        return job_text(self._record)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>"


def job_text(record: JobRecord) -> str:
    """Return a job as one line."""
    code = record.exit_code
    counts = ", ".join(f"{count} {state}" for state, count in record.counts.items() if count)
    more = "" if code is None else f", exit code {code}"
    tasks = "" if len(record.tasks) == 1 else f" ({counts})"
    return f"Job({record.name!r}, {record.state}{tasks}{more}: {record.command_line[:80]})"
