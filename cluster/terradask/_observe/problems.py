"""Find a cluster's problems from the data of AWS and hosts, with what helps. No calls.

Covers all changes outside Terraform: tags, limits, suspended processes, missing groups and
documents.

AWS (documented, asg-suspended): Auto Scaling suspends processes of a group whose launches failed
for a day, as AdministrativeSuspension.
https://docs.aws.amazon.com/autoscaling/ec2/userguide/as-suspend-resume-processes.html
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace

from terradask._aws.group_limits import WATCHDOG_MINUTES, WATCHDOG_MOVED_MINUTES
from terradask._observe.documents import Descriptor, is_raised
from terradask._observe.launch_problems import LaunchFailures, launch_problems
from terradask._observe.verdict import Problem
from terradask_host.documents import HostReport, LifetimePolicy, Run, SchedulerAddress
from terradask_host.rules.autoscaling_groups import Group
from terradask_modules.names import SCHEDULER_GROUP

#: A working scheduler's host reports within this time.
_REPORTED = datetime.timedelta(seconds=180)

#: A working scheduler's host keeps the watchdog schedule this far in the future.
_AHEAD = datetime.timedelta(minutes=WATCHDOG_MINUTES)
#: After an error of AWS, a host retries a minute later.
_SILENT = datetime.timedelta(minutes=WATCHDOG_MOVED_MINUTES + 2)

#: Processes that a group needs to follow its number and to replace hosts.
_NEEDED_PROCESSES = {
    "Launch": "launches nothing, whatever its number",
    "Terminate": "ends nothing, whatever its number",
    "HealthCheck": "doesn't notice failed hosts",
    "ReplaceUnhealthy": "doesn't replace failed hosts",
    "ScheduledActions": "isn't brought to zero by the watchdog schedule",
}


def problems_of(
    descriptor: Descriptor,
    groups: Mapping[str, Group],
    *,
    run: Run | None,
    scheduler: SchedulerAddress | None,
    reports: Sequence[HostReport],
    failures: Mapping[str, LaunchFailures],
    fires_at: datetime.datetime | None = None,
) -> tuple[Problem, ...]:
    """Return a cluster's problems.

    `failures`: group with missing instances -> its recent launch failures. `fires_at`: time at
    which the watchdog schedule sets groups to zero, if read.
    """
    name = descriptor.cluster
    raised = is_raised(groups)
    found = [*group_problems(descriptor, groups, raised=raised)]
    if raised:
        found += _documents(name, run, scheduler, reports)
        known = {each.instance_id for each in reports}
        if scheduler is not None:
            known.add(scheduler.instance_id)
        found += _unreported(name, groups.get(SCHEDULER_GROUP), run, known)
        if run is not None and scheduler is not None and fires_at is not None:
            found += _silence(name, groups.get(SCHEDULER_GROUP), run, scheduler, fires_at)
        found += _given_up(name, reports)
    found += launch_problems(descriptor, groups, failures)
    return tuple(found)


def group_problems(
    descriptor: Descriptor, groups: Mapping[str, Group], *, raised: bool
) -> Iterator[Problem]:
    """Yield the problems of a cluster's groups as AWS describes them. Suspended processes matter
    only while the cluster isn't stopped.
    """
    name = descriptor.cluster
    again = f"terradask apply {name}"
    gone = sorted(descriptor.groups.keys() - groups.keys())
    if gone:
        yield Problem(
            "groups",
            f"AWS has lost {_groups(gone)}",
            f"AWS doesn't have {_groups(gone)} of this cluster any more: deleted by hand, or "
            f"tagged for another cluster. {again} creates them again",
            again,
        )
    untagged = sorted(key for key, group in groups.items() if group.untagged)
    if untagged:
        yield Problem(
            "tags",
            f"tags of {_groups(untagged)} were removed",
            f"the tags of {_groups(untagged)} were removed: hosts and most callers can neither "
            f"scale nor end untagged groups, and new hosts fail. {again} restores "
            "the tags, by a caller who may tag untagged resources, such as an administrator; find "
            "the cause of the removal",
            again,
        )
    for key, group in sorted(groups.items()):
        if key not in descriptor.groups:
            continue
        named = descriptor.groups[key].autoscaling_group
        most = descriptor.groups[key].max_size
        if group.max_size < most:
            yield Problem(
                "maximum",
                f"the maximum of {key} was lowered to {group.max_size} at AWS",
                f"{key}: its maximum is {group.max_size} at AWS, but {most} was applied: changed "
                f"by hand. It gets no more hosts until {again} restores it",
                again,
            )
        for process, effect in _NEEDED_PROCESSES.items() if raised else ():
            if process in group.suspended:
                why = group.suspended[process]
                resume = (
                    f"aws autoscaling resume-processes --auto-scaling-group-name {named} "
                    f"--scaling-processes {process}"
                )
                yield Problem(
                    "suspended",
                    f"{process} of {key} is suspended",
                    f"{key}: {process} is suspended{f' ({why})' if why else ''}: the group "
                    f"{effect}. After correcting the cause: {resume}",
                    resume,
                )


def problems_at_start(descriptor: Descriptor, groups: Mapping[str, Group]) -> list[str]:
    """Return the problems of a starting cluster's groups; a start restores missing tags."""
    tagged = {key: replace(group, untagged=False) for key, group in groups.items()}
    return [each.text for each in group_problems(descriptor, tagged, raised=True)]


def _groups(keys: Sequence[str]) -> str:
    return f"{'the group' if len(keys) == 1 else 'the groups'} {', '.join(keys)}"


def _documents(
    name: str, run: Run | None, scheduler: SchedulerAddress | None, reports: Iterable[HostReport]
) -> Iterator[Problem]:
    stop = f"terradask stop {name}"
    again = f"{stop}, then terradask start {name}"
    if run is None:
        yield Problem(
            "documents",
            "run.json is missing in the bucket",
            "run.json is missing in the bucket, though groups are to have hosts: new hosts fail, "
            f"and no client can attach. {again}; find the cause of the deletion",
            stop,
        )
    elif scheduler is None and any(
        each.role == "scheduler" and each.state == "running" for each in reports
    ):
        yield Problem(
            "documents",
            "scheduler.json is missing in the bucket",
            "scheduler.json is missing in the bucket, though the scheduler runs: neither new "
            f"workers nor new clients find it. {again}; find the cause of the deletion",
            stop,
        )


def _unreported(
    name: str, group: Group | None, run: Run | None, known: Set[str]
) -> Iterator[Problem]:
    """Yield the problem of a running scheduler's host without a report, if the run isn't young."""
    active = () if group is None else group.active_ids
    if run is None or not active or not known.isdisjoint(active):
        return
    if _now() - datetime.datetime.fromisoformat(run.started_at) > _REPORTED:
        logs = f"terradask logs {name} {SCHEDULER_GROUP}"
        yield Problem(
            "unreported",
            "the scheduler's host has reported nothing",
            f"the scheduler's host {active[0]} runs and has reported nothing: it boots, or S3, the "
            f"key or the network refuses it; {logs} shows its log",
            logs,
        )


def may_be_silent(scheduler: SchedulerAddress | None) -> bool:
    """Return whether a scheduler has run for long enough to have gone silent."""
    started_at = None if scheduler is None else scheduler.started_at
    return started_at is not None and _now() - datetime.datetime.fromisoformat(started_at) > _SILENT


def _silence(
    name: str,
    group: Group | None,
    run: Run,
    scheduler: SchedulerAddress,
    fires_at: datetime.datetime,
) -> Iterator[Problem]:
    """Yield the problem of a scheduler's host that no longer postpones its group's watchdog."""
    host, renewed_at = scheduler.instance_id, fires_at - _AHEAD
    lifetime_seconds = (run.life or LifetimePolicy()).max_lifetime_seconds
    # Never postponed beyond the end of the cluster's lifetime.
    latest = datetime.timedelta(seconds=lifetime_seconds - 1)
    is_last = fires_at > datetime.datetime.fromisoformat(run.started_at) + latest
    runs = group is not None and host in group.active_ids and may_be_silent(scheduler)
    if runs and not is_last and _now() - renewed_at >= _SILENT:
        yield Problem(
            "silent",
            f"the scheduler's host is silent since {renewed_at:%H:%M}",
            f"the scheduler's host {host} runs according to AWS, but last renewed its watchdog at "
            f"{renewed_at:%H:%M} UTC: it hangs, or doesn't reach AWS. Unless it recovers, AWS sets "
            f"all groups to 0 at {fires_at:%H:%M} UTC. Sooner: terradask stop {name}, then "
            f"terradask start {name}",
            f"terradask stop {name}",
        )


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _given_up(name: str, reports: Sequence[HostReport]) -> Iterator[Problem]:
    """Yield the groups that the scheduler's host has given up, without a host since then."""
    notes = {
        group: (at, why)
        for each in reports
        for at, group, action, why in each.notes
        if action == "given up"
    }
    for group, (at, why) in sorted(notes.items()):
        own = [each for each in reports if each.group == group]
        if any(each.history and each.history[0][1] > at for each in own):
            continue
        logs = f"terradask logs {name} {group}"
        failed = [each for each in own if each.failed_once and each.reason]
        if failed:
            last = max(failed, key=lambda each: each.at)
            reason = f"The last one's reason: {' '.join(str(last.reason).split())}"
        else:
            reason = (
                "No host has reported a reason: S3, the key or the network may refuse hosts; "
                f"{logs} shows their logs"
            )
        yield Problem("boot", f"hosts of {group} don't join", f"{group}: {why}. {reason}", logs)
