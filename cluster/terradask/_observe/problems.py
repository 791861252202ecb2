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
from dataclasses import dataclass, replace
from typing import Self

from terradask._aws.group_limits import WATCHDOG_MINUTES, WATCHDOG_MOVED_MINUTES
from terradask._observe.documents import Descriptor, is_raised
from terradask._observe.shortfall import Pool, Shortfall, shortfall_text
from terradask._observe.verdict import Problem, clock
from terradask_host.documents import HostReport, LifetimePolicy, Run, SchedulerAddress
from terradask_host.rules.autoscaling_groups import Group
from terradask_host.rules.launch_problem import LaunchProblem
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


# ---- failing launches ----------------------------------------------------------------------------


#: Older failures may be outdated. The second limits the problems that are shown for a group.
#: AWS (reported, asg-retries): Auto Scaling repeats a failed launch with growing pauses.
#: https://gitlab.com/gitlab-org/fleeting/plugins/aws/-/issues/11
_RECENT = datetime.timedelta(seconds=900)
_SHOWN = 3

#: Kind of a launch problem -> its words. Other kinds have AWS's code.
_BRIEFS = {
    "capacity": "no {market}capacity in {zones}",
    "unsupported": "{zones} has none of the instance types",
    "reservation": "the capacity reservation is full or not active",
    "quota": "the quota of {market}vCPUs is used up",
    "storage": "the quota of storage is used up",
    "addresses": "no free addresses in the subnets of {zones}",
    "key": "Auto Scaling may not use the KMS key",
    "free-plan": "the account's Free plan has none of the instance types",
    "account": "AWS doesn't allow launches in this account yet",
    "denied": "AWS denies the launch",
}
#: Kind -> the next command; ``terradask explain`` for a lack of machines.
_COMMANDS = {
    "quota": "terradask quotas",
    "storage": "terradask quotas",
    "key": "terradask doctor",
    "free-plan": "terradask doctor",
    "account": "terradask doctor",
    "denied": "terradask doctor",
    "addresses": "terradask plan network",
    "reservation": "aws ec2 describe-capacity-reservations",
    "other": "terradask status {name} --events",
}


@dataclass(frozen=True)
class LaunchFailures:
    """The recent failed launches of a group."""

    #: Each once, the newest first.
    problems: tuple[LaunchProblem, ...] = ()
    #: The first of them, without a pause.
    since: datetime.datetime | None = None

    @classmethod
    def of(
        cls,
        failures: Sequence[tuple[datetime.datetime, LaunchProblem]],
        run: Run,
        now: datetime.datetime,
    ) -> Self:
        """Return the recent ones of a run's failures, which come newest first."""
        began = datetime.datetime.fromisoformat(run.started_at)
        recent, since = [], None
        for at, problem in failures:
            if at < began or (since or now) - at > _RECENT:
                break
            since = at
            if now - at <= _RECENT:
                recent.append(problem)
        return cls(tuple(dict.fromkeys(recent))[:_SHOWN], since)


def launch_problems(
    descriptor: Descriptor, groups: Mapping[str, Group], failures: Mapping[str, LaunchFailures]
) -> Iterator[Problem]:
    """Yield a problem for the scheduler, and one for each kind of workers' problems."""
    name, pools = descriptor.cluster, descriptor.pools
    known = {key: each for key, each in failures.items() if each.problems and key in groups}
    if (own := known.pop(SCHEDULER_GROUP, None)) is not None:
        short = Shortfall(1, 0, {SCHEDULER_GROUP: own.problems})
        text = shortfall_text(name, short, pools, role="scheduler")
        for kind in _kinds({SCHEDULER_GROUP: own}):
            brief, command = _brief(name, kind, {SCHEDULER_GROUP: own}, pools)
            yield Problem("scheduler", f"no host for the scheduler: {brief}", text, command)
            text = ""
    if not known:
        return
    workers = [
        groups[key] for keys in descriptor.worker_groups.values() for key in keys if key in groups
    ]
    shortfall = Shortfall(
        wanted=sum(group.desired for group in workers),
        there=sum(len(group.active_ids) for group in workers),
        problems={key: each.problems for key, each in known.items()},
    )
    text = shortfall_text(name, shortfall, pools)
    for kind in _kinds(known):
        brief, command = _brief(name, kind, known, pools)
        yield Problem(kind, brief, text, command)
        # One sentence has them all.
        text = ""


def _kinds(failures: Mapping[str, LaunchFailures]) -> list[str]:
    return list(dict.fromkeys(each.kind for one in failures.values() for each in one.problems))


def _brief(
    name: str, kind: str, failures: Mapping[str, LaunchFailures], pools: Mapping[str, Pool]
) -> tuple[str, str]:
    """Return the words and the next command for a kind of problems."""
    own = {k: f for k, f in failures.items() if any(p.kind == kind for p in f.problems)}
    code = next(p.code for each in own.values() for p in each.problems if p.kind == kind)
    short = [pools[key] for key in own]
    zones = sorted({zone for pool in short for zone in pool.zones})
    words = _BRIEFS.get(kind, f"launches fail ({code})").format(
        market="Spot " if {pool.market for pool in short} == {"spot"} else "",
        zones=" or ".join(zones) if len(zones) < 3 else f"{len(zones)} zones",
    )
    since = min((each.since for each in own.values() if each.since is not None), default=None)
    if since is not None:
        words += f" since {clock(since, _now())}"
    return words, _COMMANDS.get(kind, _elsewhere(short)).format(name=name)


def _elsewhere(pools: Sequence[Pool]) -> str:
    """Return the command that finds machines: a new plan takes another zone."""
    is_fixed = any(pool.zone_named or len(pool.zones) > 1 for pool in pools)
    return "terradask explain {name}" if is_fixed else "terradask plan --refresh {name}"
