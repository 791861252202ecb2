"""Find why AWS launches too few of a cluster's hosts, as problems. No calls."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from terradask._observe.documents import Descriptor
from terradask._observe.shortfall import Pool, Shortfall, shortfall_text
from terradask._observe.verdict import Problem, clock
from terradask_host.documents import Run
from terradask_host.rules.autoscaling_groups import Group
from terradask_host.rules.launch_problem import LaunchProblem
from terradask_modules.names import SCHEDULER_GROUP

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
        for brief, command in _briefs(name, {SCHEDULER_GROUP: own}, pools):
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
    kinds = dict.fromkeys(problem.kind for each in known.values() for problem in each.problems)
    for kind in kinds:
        ((brief, command),) = _briefs(name, known, pools, [kind])
        yield Problem(kind, brief, text, command)
        # One sentence has them all.
        text = ""


def _briefs(
    name: str,
    failures: Mapping[str, LaunchFailures],
    pools: Mapping[str, Pool],
    kinds: Iterable[str] = (),
) -> Iterator[tuple[str, str]]:
    """Yield the words and the next command for each kind of problems."""
    for kind in kinds or dict.fromkeys(p.kind for f in failures.values() for p in f.problems):
        own = {k: f for k, f in failures.items() if any(p.kind == kind for p in f.problems)}
        code = next(p.code for each in own.values() for p in each.problems if p.kind == kind)
        short = [pools[key] for key in own]
        zones = sorted({zone for pool in short for zone in pool.zones})
        markets = {pool.market for pool in short}
        words = _BRIEFS.get(kind, f"launches fail ({code})").format(
            market="Spot " if markets == {"spot"} else "",
            zones=" or ".join(zones) if len(zones) < 3 else f"{len(zones)} zones",
        )
        since = min((each.since for each in own.values() if each.since is not None), default=None)
        if since is not None:
            words += f" since {clock(since, datetime.datetime.now(datetime.UTC))}"
        yield words, _COMMANDS.get(kind, _elsewhere(short)).format(name=name)


def _elsewhere(pools: Sequence[Pool]) -> str:
    """Return the command that finds machines: a new plan takes another zone."""
    is_fixed = any(pool.zone_named or len(pool.zones) > 1 for pool in pools)
    return "terradask explain {name}" if is_fixed else "terradask plan --refresh {name}"
