"""Find what a run's documents show beside its problems: failed hosts, a replaced scheduler, lost
Spot hosts, a near end; with the numbers, these are the facts of a verdict. No calls.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from terradask._common.naming import counted
from terradask._common.text_table import shortened
from terradask._observe.documents import SILENT, ended_by_itself
from terradask._observe.verdict import Facts, Problem, clock, times
from terradask_host.documents import (
    SPOT_NOTICE,
    HostReport,
    LifetimePolicy,
    Run,
    SchedulerAddress,
)
from terradask_host.rules.autoscaling_groups import Group
from terradask_host.rules.lifetime import ends_at
from terradask_modules.names import SCHEDULER_GROUP

#: An end is near from this time on.
_NEAR = datetime.timedelta(hours=1)
#: Longest reason of a host in a line.
_REASON = 60


def facts_of(
    state: str,
    groups: Mapping[str, Group],
    run: Run | None,
    scheduler: SchedulerAddress | None,
    *,
    hosts: Sequence[HostReport],
    problems: Sequence[Problem],
    cluster: str,
    standby: int = 0,
    reports: Sequence[HostReport] = (),
) -> Facts:
    """Return the facts of a cluster: numbers of its workers, problems and notes. It is to have
    `standby` prepared hosts, which report also without a run: `reports`, where these are more than
    `hosts`.
    """
    now = datetime.datetime.now(datetime.UTC)
    workers = {key: group for key, group in groups.items() if key != SCHEDULER_GROUP}
    states = {each.instance_id: each.state for each in hosts}
    members = [states.get(one, "booting") for group in workers.values() for one in group.active_ids]
    running, failed = members.count("running"), members.count("failed")
    wanted = sum(group.desired for group in workers.values())
    ended = ended_by_itself(run, scheduler)
    prepared = sum(group.prepared for group in workers.values())
    notes: list[Problem] = [*_standby(cluster, prepared, standby, reports or hosts)]
    if run is not None and state in ("starting", "running", "failed"):
        given_up = any(each.kind == "boot" for each in problems)
        notes += () if given_up else _failed(cluster, groups, hosts)
        notes += _replaced(cluster, scheduler)
        notes += _spot(cluster, hosts)
        notes += _end(cluster, run, scheduler, now)
    why = SILENT
    if ended is not None:
        why = f"at {clock(datetime.datetime.fromisoformat(ended.at), now)}: {ended.reason}"
    return Facts(
        cluster,
        state,
        wanted=wanted,
        running=min(running, wanted),
        booting=len(members) - running - failed,
        prepared=prepared,
        ended=why,
        problems=(*problems, *notes),
    )


def _failed(
    cluster: str, groups: Mapping[str, Group], hosts: Sequence[HostReport]
) -> Iterator[Problem]:
    """Yield failed hosts that no running one has replaced, and those that were replaced."""
    active = {one for group in groups.values() for one in group.active_ids}
    running = Counter(
        each.group for each in hosts if each.state == "running" and each.instance_id in active
    )
    replaced = 0
    by_group: dict[str, list[HostReport]] = {}
    for each in hosts:
        if each.failed_once and each.state != "running":
            by_group.setdefault(each.group, []).append(each)
    for group, failed in sorted(by_group.items()):
        if group not in groups or running[group] >= groups[group].desired:
            replaced += len(failed)
            continue
        last = max(failed, key=lambda each: each.at)
        why = f": {shortened(' '.join(last.reason.split()), _REASON)}" if last.reason else ""
        who = "the scheduler's host" if group == SCHEDULER_GROUP else counted(len(failed), "host")
        logs = f"terradask logs {cluster} {group}"
        yield Problem("boot", f"{who} failed{why}", command=logs)
    if replaced:
        brief = f"{counted(replaced, 'failed host')} replaced"
        yield Problem("replaced-hosts", brief, command=f"terradask status {cluster} --events")


def _replaced(cluster: str, scheduler: SchedulerAddress | None) -> Iterator[Problem]:
    if scheduler is not None and scheduler.boot > 1:
        brief = f"scheduler replaced {times(scheduler.boot - 1)}"
        yield Problem("replaced", brief, command=f"terradask status {cluster} --events")


def _spot(cluster: str, hosts: Sequence[HostReport]) -> Iterator[Problem]:
    lost = [
        each
        for each in hosts
        if any((reason or "").startswith(SPOT_NOTICE) for reason in (*each.reasons, each.reason))
    ]
    if lost:
        brief = f"AWS took {counted(len(lost), 'Spot host')} back"
        yield Problem("spot", brief, command=f"terradask status {cluster} --events")


def _standby(
    cluster: str, prepared: int, standby: int, hosts: Sequence[HostReport]
) -> Iterator[Problem]:
    """Yield prepared hosts that are missing, or that couldn't install everything."""
    failed = [
        (at, group, why)
        for host in hosts
        for at, group, action, why in host.notes
        if action == "unprepared"
    ]
    if failed and prepared:
        _, group, last = max(failed)
        why = shortened(" ".join(last.partition(": ")[2].split()), _REASON)
        count = counted(min(len(failed), prepared), "prepared host")
        brief = f"{count} couldn't install everything: {why}"
        yield Problem("standby", brief, command=f"terradask logs {cluster} {group}")
    if prepared < standby:
        brief = f"{prepared:,} of {counted(standby, 'prepared host')}"
        yield Problem("standby", brief, command=f"terradask status {cluster} --events")


def _end(
    cluster: str, run: Run, scheduler: SchedulerAddress | None, now: datetime.datetime
) -> Iterator[Problem]:
    if scheduler is not None and scheduler.ending is not None and scheduler.ended is None:
        at = clock(datetime.datetime.fromisoformat(scheduler.ending.at), now)
        why, _, since = scheduler.ending.reason.partition(" since ")
        began = f" since {clock(datetime.datetime.fromisoformat(since), now)}" if since else ""
        yield Problem("ends", f"ends at {at}, {why}{began}", command=f"terradask stop {cluster}")
        return
    life = run.life or LifetimePolicy()
    end = ends_at(life, run.started_at)
    if end - now <= _NEAR:
        brief = f"ends at {clock(end, now)}, at its max_lifetime"
        yield Problem("ends", brief, command=f"terradask dashboard {cluster}")
