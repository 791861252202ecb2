"""The methods of `Cluster` that run commands."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Unpack

from terradask._dask.job import Job, JobOptions, prepare_job, shows_options
from terradask_host.commands import SubmitJob


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
