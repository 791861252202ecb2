"""Whether a scheduler's host that runs, as AWS sees it, has gone silent: it has to put off the
watchdog schedule. Pure.
"""

from __future__ import annotations

import datetime

from terradask._aws.group_limits import WATCHDOG_MINUTES, WATCHDOG_MOVED_MINUTES
from terradask_host.documents import LifetimePolicy, Run, SchedulerAddress
from terradask_host.rules.autoscaling_groups import Group

_AHEAD = datetime.timedelta(minutes=WATCHDOG_MINUTES)
#: Where AWS refuses, a host tries again a minute later.
_SILENT = datetime.timedelta(minutes=WATCHDOG_MOVED_MINUTES + 2)
_SECOND = datetime.timedelta(seconds=1)


def may_be_silent(scheduler: SchedulerAddress | None) -> bool:
    """Return whether a scheduler has run for long enough to have gone silent."""
    started_at = None if scheduler is None else scheduler.started_at
    return started_at is not None and _now() - datetime.datetime.fromisoformat(started_at) > _SILENT


def silence(
    name: str,
    group: Group | None,
    run: Run,
    scheduler: SchedulerAddress,
    fires_at: datetime.datetime,
) -> str | None:
    """Return the sentence for a scheduler's host that runs, and has not put off the watchdog
    schedule of its group, which fires at that time, for too long; None if all is well.
    """
    host, heard_at = scheduler.instance_id, fires_at - _AHEAD
    lifetime_seconds = (run.life or LifetimePolicy()).max_lifetime_seconds
    ends_at = datetime.datetime.fromisoformat(run.started_at) + datetime.timedelta(
        seconds=lifetime_seconds
    )
    # Beyond the end of the cluster's lifetime it is never put off.
    is_last = fires_at > ends_at - _SECOND
    runs = group is not None and host in group.active_ids and may_be_silent(scheduler)
    if not runs or is_last or _now() - heard_at < _SILENT:
        return None
    return (
        f"the scheduler's host {host} runs, as AWS sees it, and gave its last sign of life at "
        f"{heard_at:%H:%M} UTC: it hangs, or doesn't reach AWS. Unless it comes back, AWS sets all "
        f"groups to 0 at {fires_at:%H:%M} UTC. Sooner: terradask stop {name}, then terradask start "
        f"{name}"
    )


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
