"""What keeps a cluster from being as it was asked to be, and what helps: a sentence each, from what
AWS and the hosts say. Pure.

Whatever AWS lets others change beside Terraform is looked at here: tags, limits, suspended
processes, groups and documents that are gone. https://docs.aws.amazon.com/autoscaling/ec2/userguide/as-suspend-resume-processes.html
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace

from terradask._deployments.documents import Descriptor
from terradask._deployments.shortfall import Shortfall, shortfall_text
from terradask._deployments.silence import silence
from terradask_host.documents import HostReport, Run, SchedulerAddress
from terradask_host.rules.autoscaling_groups import Group
from terradask_host.rules.launch_problem import LaunchProblem
from terradask_modules.names import SCHEDULER_GROUP

#: A scheduler's host reports long before, if it can.
_REPORTED_SECONDS = 180.0

#: Processes without which a group doesn't follow its number, or doesn't heal.
_NEEDED_PROCESSES = {
    "Launch": "launches nothing, whatever its number",
    "Terminate": "ends nothing, whatever its number",
    "HealthCheck": "doesn't notice hosts that die",
    "ReplaceUnhealthy": "doesn't replace hosts that die",
    "ScheduledActions": "isn't brought to zero by the watchdog schedule",
}


def problems_of(
    descriptor: Descriptor,
    groups: Mapping[str, Group],
    *,
    run: Run | None,
    scheduler: SchedulerAddress | None,
    reports: Sequence[HostReport],
    failures: Mapping[str, tuple[LaunchProblem, ...]],
    fires_at: datetime.datetime | None = None,
) -> tuple[str, ...]:
    """Return what is wrong with a cluster; nothing if it is as it should be.

    `failures`: group of workers that lacks instances -> why launches failed lately. `fires_at`:
    when the watchdog schedule sets groups to zero, where that was read.
    """
    name = descriptor.cluster
    raised = any(group.desired for group in groups.values())
    found = [*group_problems(descriptor, groups, raised=raised)]
    if raised:
        found += _documents(name, run, scheduler, reports)
        known = {each.instance_id for each in reports}
        if scheduler is not None:
            known.add(scheduler.instance_id)
        found += _unreported(name, groups.get(SCHEDULER_GROUP), run, known)
        if run is not None and scheduler is not None and fires_at is not None:
            silent = silence(name, groups.get(SCHEDULER_GROUP), run, scheduler, fires_at)
            found += [] if silent is None else [silent]
        found += _given_up(name, reports)
    if (short := _shortfall(descriptor, groups, failures)) is not None:
        found.append(shortfall_text(name, short, descriptor.pools))
    return tuple(found)


def group_problems(
    descriptor: Descriptor, groups: Mapping[str, Group], *, raised: bool
) -> Iterator[str]:
    """Yield what is wrong with a cluster's groups as AWS describes them; a stopped cluster's lack
    nothing while they aren't used.
    """
    name = descriptor.cluster
    gone = sorted(descriptor.groups.keys() - groups.keys())
    if gone:
        yield (
            f"AWS doesn't have {_groups(gone)} of this cluster any more: deleted by hand, or "
            f"tagged for another cluster. terradask apply {name} makes what is gone again"
        )
    untagged = sorted(key for key, group in groups.items() if group.untagged)
    if untagged:
        yield (
            f"the tags of {_groups(untagged)} were taken off: hosts and most callers may neither "
            f"scale nor end what has none, and hosts launched now fail. terradask apply {name} "
            "puts them back, by a caller who may tag what has no tags, such as an administrator; "
            "find out what took them off"
        )
    for key, group in sorted(groups.items()):
        if key not in descriptor.groups:
            continue
        named = descriptor.groups[key].autoscaling_group
        most = descriptor.groups[key].max_size
        if group.max_size < most:
            yield (
                f"{key}: its maximum is {group.max_size} at AWS, and {most} as applied: changed by "
                f"hand. It gets no more until terradask apply {name} restores it"
            )
        for process, effect in _NEEDED_PROCESSES.items() if raised else ():
            if process in group.suspended:
                why = group.suspended[process]
                yield (
                    f"{key}: {process} is suspended{f' ({why})' if why else ''}: the group "
                    f"{effect}. When the cause is mended: aws autoscaling resume-processes "
                    f"--auto-scaling-group-name {named} --scaling-processes {process}"
                )


def problems_at_start(descriptor: Descriptor, groups: Mapping[str, Group]) -> list[str]:
    """Return what will keep a cluster that is being started from its numbers; a start puts lost
    tags back.
    """
    tagged = {key: replace(group, untagged=False) for key, group in groups.items()}
    return list(group_problems(descriptor, tagged, raised=True))


def _groups(keys: Sequence[str]) -> str:
    return f"{'the group' if len(keys) == 1 else 'the groups'} {', '.join(keys)}"


def _documents(
    name: str,
    run: Run | None,
    scheduler: SchedulerAddress | None,
    reports: Iterable[HostReport],
) -> Iterator[str]:
    again = f"terradask stop {name}, then terradask start {name}"
    if run is None:
        yield (
            "run.json is gone from the bucket, and groups are to have hosts: those launched now "
            f"fail, and no client can attach. {again}; find out what deleted it"
        )
    elif scheduler is None and any(
        each.role == "scheduler" and each.state == "running" for each in reports
    ):
        yield (
            "scheduler.json is gone from the bucket, and the scheduler runs: neither new workers "
            f"nor new clients find it. {again}; find out what deleted it"
        )


def _unreported(name: str, group: Group | None, run: Run | None, known: Set[str]) -> Iterator[str]:
    """Yield that the scheduler's host runs and has said nothing, when the run isn't young."""
    active = () if group is None else group.active_ids
    if run is None or not active or not known.isdisjoint(active):
        return
    now = datetime.datetime.now(datetime.UTC)
    age = now - datetime.datetime.fromisoformat(run.started_at)
    if age.total_seconds() > _REPORTED_SECONDS:
        yield (
            f"the scheduler's host {active[0]} runs and has reported nothing: it boots, or S3, the "
            f"key or the network refuses it; terradask logs {name} {SCHEDULER_GROUP} shows what "
            "it prints"
        )


def _given_up(name: str, reports: Sequence[HostReport]) -> Iterator[str]:
    """Yield the groups that the scheduler's host has given up, and that have had no host since."""
    notes = {
        group: (at, why)
        for each in reports
        for at, group, what, why in each.notes
        if what == "given up"
    }
    for group, (at, why) in sorted(notes.items()):
        own = [each for each in reports if each.group == group]
        if any(each.history and each.history[0][1] > at for each in own):
            continue
        failed = [each for each in own if each.failed_once and each.reason]
        if failed:
            last = max(failed, key=lambda each: each.at)
            reason = f"The last one's reason: {' '.join(str(last.reason).split())}"
        else:
            reason = (
                "None has reported why: S3, the key or the network may refuse hosts; terradask "
                f"logs {name} {group} shows what they print"
            )
        yield f"{group}: {why}. {reason}"


def _shortfall(
    descriptor: Descriptor,
    groups: Mapping[str, Group],
    failures: Mapping[str, tuple[LaunchProblem, ...]],
) -> Shortfall | None:
    problems = {group: found for group, found in failures.items() if found and group in groups}
    if not problems:
        return None
    workers = [
        groups[key] for keys in descriptor.worker_groups.values() for key in keys if key in groups
    ]
    return Shortfall(
        wanted=sum(group.desired for group in workers),
        there=sum(len(group.active_ids) for group in workers),
        problems=problems,
    )
