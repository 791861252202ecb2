"""Derive a cluster's state, and the reason of its end, from groups, run, scheduler's address and
host reports. No calls.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from typing import Literal

from terradask.errors import ClusterStopped
from terradask_host.documents import Ended, HostReport, Run, SchedulerAddress
from terradask_host.rules.autoscaling_groups import Group

State = Literal["stopped", "starting", "running", "stopping", "closing", "failed", "ended"]

#: A start that raised no group within this time was interrupted: another may take over.
CLAIM_SECONDS = 60

#: Reason of an end that the hosts couldn't report.
SILENT = (
    "its groups went to 0 without a report from its scheduler's host: they were set by hand, "
    "or by the watchdog schedule"
)


def derive_state(
    groups: Mapping[str, Group],
    run: Run | None,
    scheduler: SchedulerAddress | None,
    hosts: Iterable[HostReport],
    *,
    closing: bool,
) -> State:
    """Return the state of a deployed cluster."""
    scheduler = of_run(scheduler, run)
    raised, ended = is_raised(groups), ended_by_itself(run, scheduler) is not None
    if closing and not ended:
        return "closing"
    if any(host.role == "scheduler" and host.state == "failed" for host in hosts):
        return "failed"
    if raised and scheduler is not None and not ended:
        return "running"
    if scheduler is None and (raised or (run is not None and is_young(run))):
        return "starting"
    if raised or any(group.members for group in groups.values()):
        return "stopping"
    return "stopped" if run is None else "ended"


def state_by_numbers(desired: int, instances: int) -> State:
    """Derive a state from the groups' numbers alone, for callers who can't read reports."""
    if desired:
        return "running" if instances else "starting"
    return "stopping" if instances else "stopped"


def of_run(scheduler: SchedulerAddress | None, run: Run | None) -> SchedulerAddress | None:
    """Return the scheduler's address if it belongs to this run, else None."""
    return (
        scheduler
        if scheduler is not None and run is not None and scheduler.run_id == run.run_id
        else None
    )


def ended_by_itself(run: Run | None, scheduler: SchedulerAddress | None) -> Ended | None:
    """Return the reported end of a run that ended by itself, or None."""
    own = of_run(scheduler, run)
    return None if own is None else own.ended


def is_young(run: Run) -> bool:
    """Return whether a run is so recent that its groups may not be raised yet."""
    age = datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(run.started_at)
    return age.total_seconds() < CLAIM_SECONDS


def is_raised(groups: Mapping[str, Group]) -> bool:
    """Return whether any group's desired number is above zero."""
    return any(group.desired for group in groups.values())


def stopped_error(
    cluster: str, run_id: str | None, run: Run | None, scheduler: SchedulerAddress | None
) -> ClusterStopped:
    """Return the error for a cluster that is stopped or has ended."""
    advice = f"terradask start {cluster}, or Cluster(name={cluster!r}) from Python"
    if run is None or (run_id is not None and run.run_id != run_id):
        return ClusterStopped(f"Cluster {cluster!r} is stopped.", cluster=cluster, advice=advice)
    ended = ended_by_itself(run, scheduler)
    return ClusterStopped(
        f"Cluster {cluster!r} has ended by itself{f' at {ended.at}' if ended else ''}.",
        cluster=cluster,
        reason=ended.reason if ended else SILENT,
        at=ended.at if ended else None,
        advice=advice,
    )
