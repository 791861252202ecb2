"""Compare clusters with the workspace's limits: planned, applied and started ones.

The limits are those of the deployed network; a start compares them with what runs. The scheduler's
host compares again before it adds hosts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from terradask._catalog.host_sizes import HostChoice, host_sizes
from terradask._clusters.launch import deployed_launch, planned_launch
from terradask._clusters.starting import Start, StartingBook, StartingGroup, Starts, StartTurn
from terradask._clusters.worker_counts import numbers_at_start
from terradask._common.clock import utc_text
from terradask._observe.running import read_use
from terradask.errors import AccessDenied, QuotaExceeded
from terradask_host.documents import MonthSpent
from terradask_host.rules.limits import (
    MEASURES,
    MONTHLY,
    Excess,
    Limits,
    Running,
    Size,
    Use,
    excesses,
    fitting,
    scopes_of,
)
from terradask_modules.names import SCHEDULER_GROUP, WORKER_GROUP

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask._catalog.quotas.launch import Hosts
    from terradask._network.baseline import Baseline
    from terradask._observe.documents import Descriptor
    from terradask._observe.record import ClusterRecord
    from terradask_stacks.lock import ClusterLock
    from terradask_stacks.settings import ClusterSettings


#: Without the right to read the accounts of runs.
UNKNOWN_MONTH = (
    "this month's cost isn't known, because AWS refuses s3:GetObject on the accounts of runs "
    "(terradask iam user and ongoing allow it)"
)


class Member(NamedTuple):
    """One Auto Scaling group: its worker group, or ``scheduler``, and its hosts' types."""

    group: str
    choice: HostChoice


def deployed_members(descriptor: Descriptor) -> dict[str, Member]:
    """Return the Auto Scaling groups of a deployed cluster, by the cluster's names."""
    groups = {SCHEDULER_GROUP: (SCHEDULER_GROUP,), **descriptor.worker_groups}
    return {
        key: Member(group, HostChoice(pool.instance_types, pool.market, pool.zones))
        for group, keys in groups.items()
        for key in keys
        for pool in (descriptor.pools[key],)
    }


@dataclass(frozen=True)
class ClusterLimits:
    """One cluster, compared with a workspace's limits."""

    limits: Limits
    cluster: str
    owner: str
    team: str
    #: Auto Scaling group -> the size of its largest host.
    sizes: Mapping[str, Size]
    #: Auto Scaling group -> its group of workers, or ``scheduler``.
    groups: Mapping[str, str]
    running: Running = field(default_factory=Running)

    @classmethod
    def of(
        cls,
        aws: Aws,
        limits: Limits,
        members: Mapping[str, Member],
        *,
        cluster: str,
        team: str,
        running: Running | None = None,
    ) -> ClusterLimits:
        """Look up the sizes of a cluster's hosts, with prices if these are limited."""
        with_prices = "hourly_usd" in limits.measures
        choices = {key: member.choice for key, member in members.items()}
        # A monthly limit needs a price on the host.
        found = host_sizes(aws, choices, with_prices=with_prices or MONTHLY in limits.measures)
        groups = {key: member.group for key, member in members.items()}
        others = (running or Running()).without(cluster)
        return cls(limits, cluster, aws.caller_arn, team, found, groups, others)

    def beside(self, starts: Starts) -> ClusterLimits:
        """Return the same beside other clusters' starts at this moment."""
        return replace(self, running=starts.beside(self.running).without(self.cluster))

    def size(self, group: str) -> Size:
        """Return the largest host of a group of workers, or of the scheduler's."""
        return Size.largest(size for key, size in self.sizes.items() if self.groups[key] == group)

    @property
    def tags(self) -> dict[str, str]:
        """Auto Scaling group -> its hosts' size, as its tag has it."""
        return {key: size.to_tag() for key, size in self.sizes.items()}

    def excesses(self, numbers: Mapping[str, int], *, alone: bool = False) -> list[Excess]:
        """Return the limits that these numbers of hosts exceed, beside what runs or `alone`."""
        running = Running() if alone else self.running
        asked = [(n, self.size(group)) for group, n in numbers.items()]
        return excesses(self.limits, running, self.owner, self.team, asked)

    def check(self, numbers: Mapping[str, int], *, alone: bool = False) -> None:
        """Refuse numbers of hosts beyond the limits. Raises `QuotaExceeded`."""
        if found := self.excesses(numbers, alone=alone):
            raise self._refusal(numbers, found, alone)

    def unknown(self) -> list[str]:
        """Return warnings of limited amounts that aren't known, and so aren't counted."""
        measures = sorted(self.limits.measures - {"hosts", MONTHLY})
        own = [
            measure
            for measure in measures
            if any(size.amount(measure) is None for size in self.sizes.values())
        ]
        texts = [
            f"{self.cluster}: the {MEASURES[measure]} of its hosts aren't known, and the "
            "workspace's limits don't count them"
            for measure in own
        ]
        for measure in measures:
            if others := self.running.unknown(measure):
                named = ", ".join(others)
                texts.append(
                    f"the {MEASURES[measure]} of hosts of {named} aren't known, and the "
                    "workspace's limits don't count them"
                )
        if self.running.spent is None:
            texts.append(f"{UNKNOWN_MONTH}, and the workspace's limits don't count it")
        return texts

    def _refusal(
        self, numbers: Mapping[str, int], found: Sequence[Excess], alone: bool
    ) -> QuotaExceeded:
        running, largest = Running() if alone else self.running, {}
        for group, n in numbers.items():
            size, own = self.size(group), (self.owner, self.team)
            fits, _ = fitting(self.limits, running, *own, size=size, asked=n)
            running = replace(
                running, uses=[*running.uses, Use(self.cluster, *own, group, fits, size)]
            )
            if fits < n:
                largest[group] = fits
        named = ", ".join(
            "the scheduler" if group == SCHEDULER_GROUP else f"{n} {group}"
            for group, n in numbers.items()
            if n
        )
        return QuotaExceeded(
            f"cluster {self.cluster!r} would exceed the workspace's limits: "
            + "; ".join(f"{one.limit} ({one.set})" if alone else str(one) for one in found),
            cluster=self.cluster,
            given=f"{named}: {', '.join(_asked(one) for one in found)}",
            largest=largest,
            quotas=[_quota(one) for one in found],
            advice=(
                "request fewer or smaller instances; or raise the limit in [limits] and run: "
                "terradask apply network"
                if alone or not any(one.used for one in found)
                else "request fewer or smaller instances, or wait until others stop; terradask "
                "limits shows the use; [limits] of the network sets the limits"
            ),
        )


def _asked(excess: Excess) -> str:
    if excess.cap.measure == MONTHLY:
        return "more hosts this month"
    amount = excess.asked.normalize()
    return f"{amount:f} {MEASURES[excess.cap.measure]} more"


def _quota(excess: Excess) -> dict[str, object]:
    scope, who, measure, most = excess.cap
    return {
        "service": "terradask",
        "code": f"limits.{scope}.{measure}",
        "name": f"{MEASURES[measure]} of {scope}{f' {who}' if who else ''}",
        "limit": float(most),
        "in_use": float(excess.used),
        "needed": float(excess.asked),
        "by": excess.as_dict()["by"],
        "set_by": excess.set_by,
        "set_at": excess.set_at,
    }


# ---- at a start ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class StartLimits:
    """The data that a start stores for the limits: the sizes of groups' hosts, the month's cost."""

    #: Auto Scaling group -> the value of its tag with its hosts' size.
    tags: Mapping[str, str] = field(default_factory=dict)
    month_spent: MonthSpent | None = None
    warnings: Sequence[str] = ()
    #: For the moment of the request; None without limits.
    turn: StartTurn | None = None

    def in_turn(self, run_id: str, warn: Callable[[str], None]) -> AbstractContextManager[None]:
        """Return a context to request the hosts in, in which no other start does. Raises
        `QuotaExceeded` if another start was faster, and the limits don't allow both.
        """
        return nullcontext() if self.turn is None else self.turn.taken(run_id, warn)


def check_start(
    record: ClusterRecord, baseline: Baseline, numbers: Mapping[str, int]
) -> StartLimits:
    """Compare a start with the workspace's limits, and with what runs. Without limits there are no
    calls. A cluster with an active run isn't compared: a start leaves its numbers as they are.

    Raises `QuotaExceeded`, `BaselineError`.
    """
    limits = baseline.limits_in_force
    if limits is None:
        return StartLimits()
    aws, name = record.aws, record.name
    book, warnings = StartingBook(aws, record.bucket), []
    # Before what runs, so that a later start is noticed.
    try:
        seen = book.read()
    except AccessDenied as error:
        seen = None
        warnings.append(f"a start at the same moment isn't compared: {error.problem}")
    use = read_use(aws, record.bucket, baseline.workspace, limits)
    members, team = deployed_members(record.descriptor), use.teams.get(name, "")
    found = ClusterLimits.of(aws, limits, members, cluster=name, team=team, running=use.running)
    hosts = {SCHEDULER_GROUP: 1, **numbers}
    turn = None
    if (
        all(one.cluster != name or not one.hosts for one in use.running.uses)
        or record.current_run() is None
    ):
        found.beside(seen.starts if seen else Starts()).check(hosts)
        if seen is not None:

            def compare(starts: Starts) -> None:
                now = read_use(aws, record.bucket, baseline.workspace, limits)
                again = replace(found, running=now.running.without(name))
                again.beside(starts).check(hosts)

            turn = StartTurn(book, _start_of(record, found, hosts), seen, compare)
    spent = None
    if use.running.spent is not None and MONTHLY in limits.measures:
        amounts = {
            scope: float(use.running.spent.get((scope, who), 0))
            for scope, who in scopes_of(found.owner, team)
        }
        spent = MonthSpent(utc_text(), **amounts)
    return StartLimits(found.tags, spent, [*warnings, *found.unknown()], turn)


def _start_of(record: ClusterRecord, found: ClusterLimits, hosts: Mapping[str, int]) -> Start:
    """Return a start as others count it: each group's hosts in the first of its Auto Scaling
    groups.
    """
    first = {group: keys[0] for group, keys in record.descriptor.worker_groups.items()}
    groups = {first.get(group, group): (n, found.size(group)) for group, n in hosts.items() if n}
    return Start(
        found.cluster,
        found.owner,
        found.team,
        groups={key: StartingGroup(n, size.to_tag()) for key, (n, size) in groups.items()},
    )


# ---- before a start ------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlannedCluster:
    """A cluster that a plan makes, before any start."""

    name: str
    settings: ClusterSettings
    #: Its Auto Scaling groups, by the cluster's names.
    members: Mapping[str, Member]
    #: Its hosts at a start, and at most.
    hosts: Sequence[Hosts]

    @classmethod
    def of_lock(cls, name: str, settings: ClusterSettings, lock: ClusterLock) -> PlannedCluster:
        """Return the cluster of a plan that is being made."""
        from terradask_stacks.groups import groups_of

        members = {
            each.key: Member(
                each.worker_group or SCHEDULER_GROUP,
                HostChoice(each.instance_types, each.market, each.zones),
            )
            for each in groups_of(settings, lock)
        }
        return cls(name, settings, members, planned_launch(settings, lock))

    @classmethod
    def of_descriptor(cls, descriptor: Descriptor) -> PlannedCluster:
        """Return the cluster of a plan that is about to be applied."""
        settings = descriptor.cluster_settings
        hosts = deployed_launch(descriptor, numbers_at_start(descriptor, settings))
        return cls(descriptor.cluster, settings, deployed_members(descriptor), hosts)


def check_planned(
    aws: Aws,
    baseline: Baseline,
    planned: PlannedCluster,
    tags: Mapping[str, str],
    *,
    starts: bool = False,
    warn: Callable[[str], None] = lambda text: None,
) -> dict[str, str]:
    """Compare a planned cluster with the workspace's limits: its smallest size, which some limit
    may never allow; its largest, of which it warns; and its prepared hosts, and all if it
    `starts` right after its apply, beside what runs. Raises `QuotaExceeded`, `BaselineError`.

    `tags` are the workspace's. Returns the size of hosts by Auto Scaling group, as its tag.
    """
    limits = baseline.limits_in_force
    if limits is None:
        return {}
    from terradask_stacks.groups import standby_of

    standby = standby_of(planned.settings)
    use = None
    if starts or standby:
        use = read_use(aws, baseline.bucket, baseline.workspace, limits)
        # Its prepared hosts are asked for, whatever it has now.
        others = [one for one in use.running.uses if one.cluster != planned.name]
        use = replace(use, running=replace(use.running, uses=others))
    found = ClusterLimits.of(
        aws,
        limits,
        planned.members,
        cluster=planned.name,
        team={**tags, **planned.settings.tags}.get(limits.team_tag, ""),
        running=None if use is None else use.running,
    )
    start = {each.group: each.number for each in planned.hosts}
    most = {each.group: each.most for each in planned.hosts}
    found.check(_with(_least(start, planned.settings), standby), alone=True)
    if standby:
        # AWS begins to prepare them at the apply.
        found.check(standby)
    if starts:
        found.check(_with(start, standby))
    for one in found.excesses(_with(most, standby), alone=True):
        warn(
            f"{planned.name}: at max_workers it would exceed the workspace's limits: {one.limit} "
            f"({one.set}); it grows until a limit is reached"
        )
    for text in found.unknown():
        warn(text)
    return found.tags


def _with(numbers: Mapping[str, int], standby: Mapping[str, int]) -> dict[str, int]:
    return {**numbers, **{group: numbers.get(group, 0) + n for group, n in standby.items()}}


def _least(start: Mapping[str, int], settings: ClusterSettings) -> dict[str, int]:
    """Return the least numbers of hosts of a run: without `n_workers`, a start may name any."""
    return {**start, WORKER_GROUP: 0} if settings.n_workers is None else dict(start)
