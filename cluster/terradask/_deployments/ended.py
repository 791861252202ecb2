"""Why a cluster doesn't run any more: it was stopped, or has ended by itself. Pure."""

from __future__ import annotations

from terradask._deployments.documents import Run, SchedulerAddress
from terradask._deployments.state import ended_by_itself
from terradask.errors import ClusterEnded, ClusterStopped

#: Reason of an end that the hosts couldn't report.
SILENT = (
    "its groups went to 0 without a report from its scheduler's host: they were set by hand, "
    "or by the watchdog schedule"
)


def over(
    cluster: str, run_id: str | None, run: Run | None, scheduler: SchedulerAddress | None
) -> ClusterStopped:
    """Return the error for a cluster that doesn't run any more."""
    advice = f"terradask start {cluster}, or Cluster(name={cluster!r}) from Python"
    if run is None or (run_id is not None and run.run_id != run_id):
        return ClusterStopped(f"Cluster {cluster!r} is stopped.", cluster=cluster, advice=advice)
    ended = ended_by_itself(run, scheduler)
    return ClusterEnded(
        f"Cluster {cluster!r} has ended by itself{f' at {ended.at}' if ended else ''}.",
        cluster=cluster,
        reason=ended.reason if ended else SILENT,
        at=ended.at if ended else None,
        advice=advice,
    )
