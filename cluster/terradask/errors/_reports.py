"""What a run did isn't kept."""

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
