"""The public methods of a cluster object that run commands."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

from terradask._dask.attached import Attached
from terradask._dask.health import Health
from terradask._dask.job import Job
from terradask._deployments.lifetime import Duration, parse_duration
from terradask._deployments.private_envs import check_private_envs
from terradask._jobs.files import find_files, pack
from terradask._jobs.named_files import files_of_command
from terradask._jobs.request import job_request
from terradask_host.commands import SubmitJob

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
    """Check a job and pack its files, with those that the command names, without any call. Raises
    `InvalidInput`.
    """
    named = files_of_command(command, directory)
    return job_request(
        command,
        inputs,
        environ=check_private_envs(environ or {}),
        retries=retries,
        timeout_seconds=parse_duration("timeout", timeout) or None,
        resources=resources,
        packed=pack(find_files([*named, *files], directory, exclude)),
    )


def _shows_options(method: Method) -> Method:
    """Give a method, to be shown, the signature with the options of `prepare_job`."""
    own = inspect.signature(method)
    options = inspect.signature(prepare_job).parameters.values()
    shown = [
        *(one for one in own.parameters.values() if one.kind is not one.VAR_KEYWORD),
        *(one for one in options if one.kind is one.KEYWORD_ONLY),
    ]
    method.__signature__ = own.replace(parameters=shown)  # type: ignore[attr-defined]
    return method


class ClusterJobs:
    """Submits jobs. `Cluster` makes the parts."""

    asynchronous: bool
    sync: Callable[..., Any]
    _health: Health

    if TYPE_CHECKING:

        @property
        def _running(self) -> Attached: ...

    @_shows_options
    def run_command(self, command: Sequence[str], **options: Unpack[JobOptions]) -> Any:
        """Run a command on a worker's host, as a task of Dask's: it goes on without this client,
        and keeps the cluster until it is done.

        Its environment is the workers', with their packages and private variables, and besides
        ``TERRADASK_JOB``, ``TERRADASK_TASK_INDEX``, ``TERRADASK_TASK_TRY`` and, with an input,
        ``TERRADASK_TASK_INPUT``. It takes one of its worker's threads, and its memory isn't
        limited to the worker's.

        Parameters
        ----------
        command
            Program and arguments. No shell reads them: for a shell's line, pass ``["sh", "-c",
            line]``. It is recorded, so no secret may be in it.
        files
            Files that it finds in its working directory, by the paths given here, or by their names
            if those lead elsewhere. Those that the command names by a path below the working
            directory are taken along without that. With `directory`, up to 16 MiB packed.
        directory
            Folder whose files it finds there too: without what git ignores, and without hidden
            files, except those that git tracks. By default none.
        exclude
            Patterns of files that are left out, such as ``"*.parquet"`` or ``"data"``.
        environ
            Environment variables. Their values aren't recorded, but use `send_private_envs` for
            secrets.
        retries
            How often it is tried again if it fails. Tries that end with their host don't count: it
            is given up after 20 of these.
        timeout
            How long a try may take, such as ``"2 hours"``, or seconds: then it ends, and its exit
            code is 124. By default there is no limit.
        resources
            Dask's resources that it needs, such as ``{"GPU": 1}``, by which groups of workers are
            chosen.

        Returns
        -------
        Job
            With ``wait()``, ``exit_code``, ``logs()`` and ``cancel()``.

        Raises
        ------
        InvalidInput
            For a command, files or a number that can't be used.
        ClusterError
            When the scheduler doesn't take it.
        ClusterClosed, ClusterStopped
            When the cluster doesn't run any more.
        VersionMismatch
            When its hosts run a terradask without jobs.
        """
        return submit_job(self, prepare_job(command, **options))

    @_shows_options
    def map_commands(
        self, command: Sequence[str], inputs: Sequence[Any], **options: Unpack[JobOptions]
    ) -> Any:
        """Run a command once for each input, as tasks of Dask's on all workers. Each gets exactly
        one recorded success, however often AWS takes hosts back meanwhile.

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
        return submit_job(self, prepare_job(command, list(inputs), **options))

    def job(self, job: str) -> Job:
        """Return a job of this cluster by its id, from whatever client it was submitted.

        Parameters
        ----------
        job
            Its id, as `Job.id` has it. ``Deployment.job_ids`` lists those that are recorded.
        """
        return Job(
            job, self._running.jobs, self._health, self.sync, lambda: bool(self.asynchronous)
        )


def submit_job(cluster: ClusterJobs, request: SubmitJob) -> Any:
    """Submit what was prepared to a cluster, and return its `Job`."""
    cluster._health.check()

    async def submit() -> Job:
        return cluster.job(await cluster._running.jobs.submit(request))

    return cluster.sync(submit)
