"""Stopping a deployed cluster: groups at zero, keys removed, the deployment kept. No Terraform."""

from __future__ import annotations

import time
from collections.abc import Mapping

from terradask._deployments.record import ClusterRecord
from terradask._deployments.run_end import note_end
from terradask.errors import AccessDenied
from terradask_host.rules.autoscaling_groups import Group
from terradask_modules.names import SCHEDULER_GROUP

#: Reports of hosts that are read while a process ends, one after the other.
REPORTS_AT_EXIT = 50


def stop_cluster(
    record: ClusterRecord, *, wait_seconds: float = 0, most_reports: int | None = None
) -> bool:
    """Stop a cluster, waiting at most so long for its end; return whether keys were removed.

    The log of its events has those of the latest reports of hosts, if there is a limit.
    """
    groups = record.groups
    groups.zero()
    deadline = time.monotonic() + wait_seconds
    while wait_seconds and time.monotonic() < deadline:
        with record.limiter.slot():
            described = groups.describe()
        if not any(group.members for group in described.values()):
            break
        if _is_raised(described):
            groups.zero(described)
    groups.remove_watchdog()
    removed = _remove_keys(record)
    run = record.run()
    if run is not None:
        note_end(record, run, most_reports, done="stopped")
    record.objects.delete_run()
    # Last: a caller whose policy is older than this right has stopped the cluster all the same.
    groups.clear_schedules()
    return removed


def _remove_keys(record: ClusterRecord) -> bool:
    """Overwrite the keys: hosts that boot now find none."""
    if not record.secret.exists:
        return True
    try:
        return record.secret.empty()
    except AccessDenied:
        if not record.descriptor.settings.get("private_to_creator"):
            raise
        return False


def _is_raised(described: Mapping[str, Group]) -> bool:
    """Return whether the scheduler's host has just raised a group after all had gone to zero; a new
    start raises the scheduler's first.
    """
    scheduler = described.get(SCHEDULER_GROUP)
    raised = any(group.desired for group in described.values())
    return raised and (scheduler is None or not scheduler.desired)
