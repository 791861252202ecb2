"""The public methods of a deployment that read what became of its jobs."""

from __future__ import annotations

from dataclasses import replace

from terradask._deployments.record import ClusterRecord
from terradask._jobs.output import JobOutput
from terradask._jobs.store import JobStore
from terradask.errors import DocumentFormat, JobNotFound
from terradask_host.jobs import JobRecord


class ReadableJobs:
    """Reads the records of a cluster's jobs; `Deployment` makes the record of the cluster."""

    name: str
    _record: ClusterRecord

    def job_ids(self) -> list[str]:
        """Return the ids of the jobs that are recorded, the newest first.

        Notes
        -----
        Permission needed: ``s3:ListBucket`` on the workspace's bucket.
        """
        return self._jobs.ids()

    def job(self, job: str | None = None) -> JobRecord:
        """Return what is recorded of a job, up to some seconds ago if it runs. The bucket keeps it
        for 30 days, also when the cluster is stopped or destroyed.

        Parameters
        ----------
        job
            Id of the job. By default the last one.

        Returns
        -------
        JobRecord
            With ``state``, ``exit_code``, ``counts`` and, for each task, its input, state, tries,
            exit code, host and times.

        Raises
        ------
        JobNotFound
            When no such job is recorded; with those that are.
        DocumentFormat
            When the record isn't what the scheduler's host writes.

        Notes
        -----
        Permissions needed: ``s3:GetObject`` on ``reports/*`` of the workspace's bucket, and
        ``s3:ListBucket``.
        """
        if job is None:
            job = next(iter(self._jobs.ids()), None)
        if job is None:
            raise JobNotFound(self.name, None)
        found = self._jobs.record(job)
        return found if found.is_over or self._still_has(found) else replace(found, is_lost=True)

    def job_output(self, job: str, index: int = 0) -> JobOutput | None:
        """Return what a task of a job wrote before it ended, or its cluster did: up to 4 MiB of it,
        less of each if there are many. None for a task that still runs, or has written nothing.

        Parameters
        ----------
        job
            Id of the job.
        index
            Number of the task.

        Notes
        -----
        Permissions needed: as for `job`.
        """
        return self._jobs.output(job, index)

    @property
    def _jobs(self) -> JobStore:
        return JobStore(self._record.aws, self._record.bucket, self.name)

    def _still_has(self, job: JobRecord) -> bool:
        """Whether the scheduler's process that has a job may still be there."""
        try:
            run, scheduler = self._record.run(), self._record.scheduler()
        except DocumentFormat:
            return True
        if run is None or run.run_id != job.run_id:
            return False
        if scheduler is None:
            return True
        return scheduler.ended is None and scheduler.boot == job.boot
