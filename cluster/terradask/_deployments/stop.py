"""Stopping a deployed cluster: groups at zero, keys removed, the deployment kept. No Terraform."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING

from terradask._deployments.events.gather import write_event_log
from terradask._deployments.store import write_secret

if TYPE_CHECKING:
    from terradask._deployments.record import ClusterRecord


def stop_cluster(record: ClusterRecord, *, wait_seconds: float = 0) -> None:
    """Stop a cluster, and wait at most `wait_seconds` for its groups to be empty."""
    groups = record.groups
    groups.zero()
    deadline = time.monotonic() + wait_seconds
    while wait_seconds and time.monotonic() < deadline:
        with record.limiter.slot():
            described = groups.describe()
        if not any(group.members for group in described.values()):
            break
    groups.remove_watchdog()
    # Overwrite the keys: hosts that boot now find none.
    write_secret(
        record.aws, record.descriptor.secret_id, {"format": 1}, version_id=str(uuid.uuid4())
    )
    run = record.run()
    if run is not None:
        write_event_log(record, run)
    record.objects.delete_run()
    # Last: a caller whose policy is older than this right has stopped the cluster all the same.
    groups.clear_schedules()
