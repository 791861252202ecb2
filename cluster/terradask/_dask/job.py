"""``Job``: a submitted command or set of commands, its options, and the methods that submit it."""

from __future__ import annotations

import asyncio
import datetime
import inspect
from abc import abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

from distributed.core import Status

from terradask._clusters.lifetime import Duration, parse_duration
from terradask._clusters.private_envs import check_private_envs
from terradask._common.clock import utc_text
from terradask._common.pages import html_page
from terradask.errors import InvalidInput, JobTimeout

if TYPE_CHECKING:
    from terradask._dask.health import Health
    from terradask._dask.job_requests import JobRequests
    from terradask_host.commands import SubmitJob
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

    def __await__(self) -> Generator[Any, Any, Job]:
        """Return this job: asynchronous code awaits what submits it."""
        return self
        yield

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
        requests = self._requests
        return self._ask(
            lambda job: requests.output(job, index), lambda job: requests.kept_output(job, index)
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
        from terradask._clusters.jobs.store import write_output

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
        return html_page("text", text=repr(self))


def job_text(record: JobRecord) -> str:
    """Return a job as one line."""
    code = record.exit_code
    counts = ", ".join(f"{count} {state}" for state, count in record.counts.items() if count)
    more = "" if code is None else f", exit code {code}"
    tasks = "" if len(record.tasks) == 1 else f" ({counts})"
    return f"Job({record.name!r}, {record.state}{tasks}{more}: {record.command_line[:80]})"


# ---- what a cluster object's methods that run commands take, checked and packed ------------------


Method = TypeVar("Method", bound=Callable[..., Any])


class JobOptions(TypedDict, total=False):
    """What `prepare_job` takes by name."""

    files: Sequence[str | Path]
    directory: str | Path | None
    exclude: Sequence[str]
    environ: Mapping[str, str] | None
    retries: int
    timeout: Duration | None
    resources: Mapping[str, float] | None


def prepare_job(
    command: Sequence[str],
    inputs: Sequence[Any] | None = None,
    *,
    files: Sequence[str | Path] = (),
    directory: str | Path | None = None,
    exclude: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    retries: int = 0,
    timeout: Duration | None = None,
    resources: Mapping[str, float] | None = None,
) -> SubmitJob:
    """Check a job and pack its files and those in its command. No calls. Raises `InvalidInput`."""
    from terradask._clusters.jobs.files import files_of_command, find_files, pack
    from terradask._dask.job_requests import new_id
    from terradask_host.commands import SubmitJob
    from terradask_host.jobs import JobRecord, problem_of
    from terradask_host.rules.job_tasks import JobTask

    if isinstance(command, str) or not all(isinstance(part, str) for part in command):
        raise InvalidInput(
            "A command must be a list of a program and its arguments.",
            given=repr(command)[:200],
            allowed='a list of strings, such as ["python", "train.py"]',
            advice='for a shell\'s line, pass ["sh", "-c", line]',
        )
    given = [None] if inputs is None else [str(each) for each in inputs]
    environ = check_private_envs(environ or {})
    record = JobRecord(
        cluster="",
        id=new_id(now := datetime.datetime.now(datetime.UTC)),
        run_id="",
        boot=0,
        command=tuple(command),
        environ=tuple(sorted(environ)),
        retries=retries,
        timeout_seconds=parse_duration("timeout", timeout) or None,
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
    sent = find_files([*files_of_command(command, directory), *files], directory, exclude)
    return SubmitJob(record.to_document(), environ, amounts, pack(sent))


def shows_options(method: Method) -> Method:
    """Give a method, to be shown, the signature with the options of `prepare_job`."""
    own = inspect.signature(method)
    options = inspect.signature(prepare_job).parameters.values()
    shown = [
        *(one for one in own.parameters.values() if one.kind is not one.VAR_KEYWORD),
        *(one for one in options if one.kind is one.KEYWORD_ONLY),
    ]
    method.__signature__ = own.replace(parameters=shown)  # type: ignore[attr-defined]
    return method


# ---- the methods of `Cluster` that run commands --------------------------------------------------


class JobMethods:
    """A cluster that submits jobs."""

    @shows_options
    def run_command(self, command: Sequence[str], **options: Unpack[JobOptions]) -> Job:
        """Run a command on a worker's host, as a Dask task that goes on without this client.

        The cluster doesn't end before it. The command has the workers' environment, packages and
        private variables, and the variables ``TERRADASK_JOB``, ``TERRADASK_TASK_INDEX``,
        ``TERRADASK_TASK_TRY`` and, with an input, ``TERRADASK_TASK_INPUT``. It takes one of its
        worker's threads, and its memory isn't limited to the worker's.

        Parameters
        ----------
        command
            Program and arguments. No shell reads them: for a shell's line, pass ``["sh", "-c",
            line]``. Don't put secrets in it, because it is recorded.
        files
            Files for its working directory, under the paths given here, or under their names if the
            paths lead elsewhere. Files that the command names by a path below the working directory
            are added. With `directory`, up to 16 MiB packed.
        directory
            Folder whose files are added too, without hidden files that git doesn't track and files
            that git ignores. By default none.
        exclude
            Patterns of files that are left out, such as ``"*.parquet"`` or ``"data"``.
        environ
            Environment variables. Their values aren't recorded; for secrets, use
            `send_private_envs`.
        retries
            Number of further tries if it fails. Tries that end with their host don't count, up to
            20.
        timeout
            Longest time of a try, such as ``"2 hours"``, or seconds: then it ends with exit code
            124. By default there is no limit.
        resources
            Dask's resources that it requires, such as ``{"GPU": 1}``, which select groups of
            workers.

        Returns
        -------
        Job
            With ``wait()``, ``exit_code``, ``logs()`` and ``cancel()``.

        Raises
        ------
        InvalidInput
            For a command, files or a number that can't be used.
        ClusterError
            When the scheduler refuses it.
        ClusterClosed, ClusterStopped
            When the cluster doesn't run any more.
        VersionMismatch
            When its hosts run a terradask without jobs.
        """
        return self._submit_job(prepare_job(command, **options))

    @shows_options
    def map_commands(
        self, command: Sequence[str], inputs: Sequence[Any], **options: Unpack[JobOptions]
    ) -> Job:
        """Run a command once for each input, as Dask tasks on all workers. Each input gets exactly
        one recorded success, however often AWS interrupts hosts.

        Parameters
        ----------
        command
            As for `run_command`; ``{}`` in any argument stands for the input.
        inputs
            One for each task, up to 10,000, as text of up to 4 KiB each.
        files, directory, exclude, environ, resources
            As for `run_command`.
        retries, timeout
            As for `run_command`, for each task.

        Returns
        -------
        Job
            Its ``tasks`` have each input's state, tries, exit code, host and times; its exit code
            is the worst task's.

        Raises
        ------
        InvalidInput, ClusterError, ClusterClosed, ClusterStopped, VersionMismatch
            As for `run_command`.
        """
        return self._submit_job(prepare_job(command, list(inputs), **options))

    @abstractmethod
    def _submit_job(self, request: SubmitJob) -> Job:
        """Submit a prepared job, and return its `Job`; in asynchronous code, an object that returns
        it when awaited, as `Job` does.
        """
