"""Stopping a deployed cluster: groups at zero, keys removed, the deployment kept. No Terraform."""

from __future__ import annotations

import time
import uuid

from terradask._deployments.events.gather import write_event_log
from terradask._deployments.record import ClusterRecord
from terradask.errors import AccessDenied

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
    groups.remove_watchdog()
    removed = _remove_keys(record)
    run = record.run()
    if run is not None:
        write_event_log(record, run, most_reports)
    record.objects.delete_run()
    # Last: a caller whose policy is older than this right has stopped the cluster all the same.
    groups.clear_schedules()
    return removed


def _remove_keys(record: ClusterRecord) -> bool:
    """Overwrite the keys: hosts that boot now find none."""
    if not record.secret.exists:
        return True
    try:
        record.secret.write({"format": 1}, version_id=str(uuid.uuid4()))
    except AccessDenied:
        if not record.descriptor.settings.get("private_to_creator"):
            raise
        return False
    return True
