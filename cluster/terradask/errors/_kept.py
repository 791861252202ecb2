"""What runs leave behind: logs, reports and jobs that can't be read, or aren't there."""

from __future__ import annotations

from collections.abc import Sequence

from terradask.errors._cluster import ClusterError


class ReportNotFound(ClusterError):
    """No such performance report is kept.

    Parameters
    ----------
    cluster
        The cluster's name.
    run
        The run that was asked for; None: the last one.
    runs
        Runs with a report, oldest first.
    why
        Why the running cluster has made none.
    """

    def __init__(
        self, cluster: str, run: str | None, runs: Sequence[str] = (), why: str | None = None
    ) -> None:
        super().__init__(
            f"There is no performance report of cluster {cluster!r}"
            + ("." if why is None else f": {why}."),
            cluster=cluster,
            given="the last run" if run is None else f"run {run}",
            allowed=", ".join(runs[-5:]) or "none: no run of the last 30 days has one",
            advice=(
                "a report is made when a run in which tasks have ended comes to its end, or when "
                "it is asked for while the cluster runs, unless cluster.performance_report is off. "
                f"Why a host has kept none: terradask logs {cluster} scheduler"
            ),
        )
        self.run = run
        self.runs = tuple(runs)
        self.why = why


class JobNotFound(ClusterError, LookupError):
    """The cluster has no record of such a job.

    Parameters
    ----------
    cluster
        The cluster's name.
    job
        The job that was asked for; None: the last one.
    jobs
        Jobs that are recorded, newest first.
    """

    exit_code = 6

    def __init__(self, cluster: str, job: str | None, jobs: Sequence[str] = ()) -> None:
        super().__init__(
            f"There is no such job of cluster {cluster!r}.",
            cluster=cluster,
            given="the last job" if job is None else job,
            allowed=", ".join(jobs[:5]) or "none: no job of the last 30 days is recorded",
            advice=f"terradask job list {cluster}",
        )
        self.job = job
        self.jobs = tuple(jobs)


class JobLost(ClusterError):
    """A job can't finish, because its scheduler's process is gone.

    Parameters
    ----------
    cluster
        The cluster's name.
    job
        The job's id.
    left
        How many of its tasks had not ended, as far as is recorded.
    """

    exit_code = 125

    def __init__(self, cluster: str, job: str, left: int) -> None:
        super().__init__(
            f"Job {job!r} is lost: the scheduler of cluster {cluster!r} that had it is gone.",
            cluster=cluster,
            given=f"{left} of its tasks had not ended",
            advice=(
                f"`terradask job status {cluster}/{job}` shows which have; submit the others again"
            ),
        )
        self.job = job
        self.left = left


class JobTimeout(ClusterError, TimeoutError):
    """A job isn't over in time; it goes on.

    Parameters
    ----------
    cluster
        The cluster's name.
    job
        The job's id.
    seconds
        How long it was waited for.
    """

    exit_code = 7

    def __init__(self, cluster: str, job: str, seconds: float) -> None:
        super().__init__(
            f"Job {job!r} of cluster {cluster!r} isn't over.",
            cluster=cluster,
            given=f"waited for {seconds:.0f} s",
            advice=f"wait longer, or end it: terradask job cancel {cluster}/{job}",
        )
        self.job = job
        self.seconds = seconds
