"""Why a cluster doesn't run any more: somebody stopped it, or it has ended by itself. Without touching AWS."""

from __future__ import annotations

from terradask._deployments.documents import Run, SchedulerAddress
from terradask.errors import ClusterEnded, ClusterStopped

#: Its hosts can't have said why.
SILENT = "its groups went to 0 without a word from its scheduler's host: somebody set them, or the dead man's switch did"


def over(cluster: str, run_id: str | None, run: Run | None, scheduler: SchedulerAddress | None) -> ClusterStopped:
    """Return the error for a cluster that doesn't run any more."""
    advice = f"terradask start {cluster}, or Cluster(name={cluster!r}) from Python"
    if run is None or (run_id is not None and run.run_id != run_id):
        return ClusterStopped(f"Cluster {cluster!r} is stopped.", cluster=cluster, advice=advice)
    ended = scheduler.ended if scheduler is not None and scheduler.run_id == run.run_id else None
    return ClusterEnded(
        f"Cluster {cluster!r} has ended by itself{f' at {ended.at}' if ended else ''}.",
        cluster=cluster,
        reason=ended.reason if ended else SILENT,
        at=ended.at if ended else None,
        advice=advice,
    )
