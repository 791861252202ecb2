"""A workspace's limits on all that runs in it: for the workspace, each owner and each team. Pure.

A client that starts a cluster and a scheduler's host that grows one apply the same rule to the same
data: AWS's list of the workspace's Auto Scaling groups, which hosts may read anyway. The size of a
group's hosts is in a tag that its run's start has set.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, NamedTuple

from terradask_host.document_fields import Record
from terradask_host.documents import MonthSpent
from terradask_host.rules.autoscaling_groups import Group

WORKSPACE_TAG = "terradask:workspace"
CLUSTER_TAG = "terradask:cluster"
GROUP_TAG = "terradask:group"
OWNER_TAG = "terradask:run:owner"
#: On a group: the size of its largest host.
SIZE_TAG = "terradask:run:size"

#: Measure of a limit -> its name in messages.
MEASURES: Mapping[str, str] = {
    "hosts": "hosts",
    "vcpus": "vCPUs",
    "gpus": "GPUs",
    "hourly_usd": "US dollars an hour",
    "monthly_usd": "US dollars a month",
}
MONTHLY = "monthly_usd"

#: Number of clusters that a message names; others are counted.
_NAMED = 4
_ZERO = Decimal(0)
#: An amount in a group's tag. Every user can write one: more digits than any host's aren't read.
_PART = re.compile(r"([a-z]+)=([0-9]{1,9}(?:\.[0-9]{1,12})?)(?= |$)", re.ASCII)
_CENT = Decimal("0.01")


@dataclass(frozen=True)
class Caps(Record):
    """Largest amounts; None: any amount."""

    hosts: int | None = None
    vcpus: int | None = None
    gpus: int | None = None
    hourly_usd: float | None = None
    monthly_usd: float | None = None

    def or_else(self, others: Caps) -> Caps:
        """Return these, and `others` where these name none."""
        own = {name: value for name, value in vars(self).items() if value is not None}
        return Caps(**{**vars(others), **own})


class Cap(NamedTuple):
    """One limit: ``workspace``, ``owner`` or ``team``, who that is, what is limited, and how far.

    The team of clusters without the team's tag is empty.
    """

    scope: str
    who: str
    measure: str
    most: Decimal


@dataclass(frozen=True)
class Limits(Record):
    """A workspace's limits, as the network's apply writes them."""

    #: Tag of clusters that names their team.
    team_tag: str = "team"
    workspace: Caps = field(default_factory=Caps)
    each_owner: Caps = field(default_factory=Caps)
    each_team: Caps = field(default_factory=Caps)
    #: ARN -> limits of one owner, in place of `each_owner`'s.
    owners: Mapping[str, Caps] = field(default_factory=dict)
    #: Value of the tag -> limits of one team, in place of `each_team`'s.
    teams: Mapping[str, Caps] = field(default_factory=dict)
    #: ARN of the caller whose plan has set them, and when.
    set_by: str | None = None
    set_at: str | None = None

    def caps(self, owner: str, team: str) -> list[Cap]:
        """Return the limits for a cluster of an owner and a team, the widest first."""
        return [
            *_caps("workspace", "", self.workspace),
            *_caps("team", team, self.of_team(team)),
            *_caps("owner", owner, self.of_owner(owner)),
        ]

    def of_owner(self, owner: str) -> Caps:
        """Return one owner's limits."""
        return self.owners.get(owner, Caps()).or_else(self.each_owner)

    def of_team(self, team: str) -> Caps:
        """Return one team's limits."""
        return self.teams.get(team, Caps()).or_else(self.each_team)

    @property
    def measures(self) -> frozenset[str]:
        """The measures of all limits."""
        every = (
            self.workspace,
            self.each_owner,
            self.each_team,
            *self.owners.values(),
            *self.teams.values(),
        )
        return frozenset(
            name for caps in every for name, value in vars(caps).items() if value is not None
        )


def _caps(scope: str, who: str, caps: Caps) -> list[Cap]:
    return [
        Cap(scope, who, name, Decimal(str(value)))
        for name, value in vars(caps).items()
        if value is not None
    ]


# ---- what runs -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Size:
    """Size and hourly price of one host; None: not known, and not counted."""

    vcpus: int | None = None
    gpus: int | None = None
    hourly_usd: Decimal | None = None

    def amount(self, measure: str) -> Decimal | None:
        """Return what one host uses of a measure; None if that isn't known."""
        if measure in ("hosts", MONTHLY):
            return Decimal(measure == "hosts")
        found: int | Decimal | None = getattr(self, measure)
        return None if found is None else Decimal(found)

    @staticmethod
    def largest(sizes: Iterable[Size]) -> Size:
        """Return the largest of each amount; None where one of them isn't known."""
        of_each = [(size.vcpus, size.gpus, size.hourly_usd) for size in sizes]
        if not of_each:
            return Size()
        found = [None if None in each else max(each) for each in zip(*of_each, strict=True)]
        return Size(*found)

    def to_tag(self) -> str:
        """Return the value of a group's tag, without what isn't known."""
        usd = self.hourly_usd
        parts = {
            "vcpus": self.vcpus,
            "gpus": self.gpus,
            "usd": None if usd is None else format(usd.normalize(), "f"),
        }
        return " ".join(f"{name}={value}" for name, value in parts.items() if value is not None)

    @classmethod
    def of_tag(cls, text: str | None) -> Size:
        """Read a group's tag; other text isn't known."""
        numbers = {name: Decimal(value) for name, value in _PART.findall(text or "")}
        vcpus, gpus = numbers.get("vcpus"), numbers.get("gpus")
        return cls(
            None if vcpus is None else int(vcpus),
            None if gpus is None else int(gpus),
            numbers.get("usd"),
        )


@dataclass(frozen=True)
class Use:
    """The hosts of one Auto Scaling group."""

    cluster: str
    owner: str
    #: Empty without the team's tag.
    team: str
    #: The cluster's own name of the group.
    group: str
    #: Its hosts, and those that are requested.
    hosts: int
    size: Size = Size()
    #: Types of its hosts.
    types: tuple[str, ...] = ()
    #: Prepared hosts beside them. They count while they are stopped too: AWS starts and replaces
    #: them when it likes, whatever the limits.
    prepared: int = 0

    def belongs_to(self, cap: Cap) -> bool:
        """Return whether a limit counts it."""
        return cap.scope == "workspace" or getattr(self, cap.scope) == cap.who

    def amount(self, measure: str) -> Decimal:
        """Return its amount of a measure; 0 if it isn't known."""
        return (self.hosts + self.prepared) * (self.size.amount(measure) or _ZERO)


def uses_of(described: Iterable[Mapping[str, Any]], team_tag: str) -> list[Use]:
    """Return what runs, from AWS's description of a workspace's groups.

    A group without a cluster counts under its own name.
    """
    found = []
    for each in described:
        tags = {tag["Key"]: tag.get("Value", "") for tag in each.get("Tags", ())}
        group = Group.of(tags.get(GROUP_TAG, ""), each)
        hosts = max(group.desired, len(group.active_ids))
        types = {one.get("InstanceType", "") for one in each["Instances"] or _overrides(each)}
        if hosts or group.prepared:
            found.append(
                Use(
                    tags.get(CLUSTER_TAG) or each["AutoScalingGroupName"],
                    tags.get(OWNER_TAG, ""),
                    tags.get(team_tag, ""),
                    group.name,
                    hosts,
                    Size.of_tag(tags.get(SIZE_TAG)),
                    tuple(sorted(types - {""})),
                    group.prepared,
                )
            )
    return found


def _overrides(described: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the types that a group may launch."""
    template = (described.get("MixedInstancesPolicy") or {}).get("LaunchTemplate") or {}
    found: Sequence[Mapping[str, Any]] = template.get("Overrides") or ()
    return found


#: A limit's scope, and who that is.
Scope = tuple[str, str]
#: US dollars of this month.
Spent = Mapping[Scope, Decimal]


def scopes_of(owner: str, team: str) -> tuple[Scope, ...]:
    """Return the scopes of the limits on a cluster of an owner and a team."""
    return ("workspace", ""), ("owner", owner), ("team", team)


def month_begin(now: datetime.datetime) -> datetime.datetime:
    """Return the begin of a time's month, in UTC."""
    first = now.astimezone(datetime.UTC).replace(day=1)
    return first.replace(hour=0, minute=0, second=0, microsecond=0)


@dataclass(frozen=True)
class Running:
    """The running hosts of a workspace, and the cost of this month."""

    uses: Sequence[Use] = ()
    #: None: not known, and not counted.
    spent: Spent | None = field(default_factory=dict)

    def used(self, cap: Cap) -> Decimal:
        """Return how much of a limit is used."""
        if cap.measure == MONTHLY:
            return (self.spent or {}).get((cap.scope, cap.who), _ZERO)
        return sum((use.amount(cap.measure) for use in self.counted(cap)), _ZERO)

    def counted(self, cap: Cap) -> list[Use]:
        """Return the groups that a limit counts."""
        return [use for use in self.uses if use.belongs_to(cap)]

    def unknown(self, measure: str) -> list[str]:
        """Return the clusters of which some hosts' amount isn't known."""
        return sorted({use.cluster for use in self.uses if use.size.amount(measure) is None})

    def without(self, cluster: str) -> Running:
        """Return what else runs, with the cluster's prepared hosts: a start leaves their number as
        it is.
        """
        uses = [
            use if use.cluster != cluster else replace(use, hosts=0)
            for use in self.uses
            if use.cluster != cluster or use.prepared
        ]
        return Running(uses, self.spent)


def own_facts(
    described: Iterable[Mapping[str, Any]], cluster: str, team_tag: str
) -> tuple[str, dict[str, Size]]:
    """Return a cluster's team, and the sizes of its groups' hosts, from AWS's description."""
    team, sizes = "", {}
    for each in described:
        tags = {tag["Key"]: tag.get("Value", "") for tag in each.get("Tags", ())}
        if tags.get(CLUSTER_TAG) == cluster:
            team = tags.get(team_tag, team)
            sizes[tags.get(GROUP_TAG, "")] = Size.of_tag(tags.get(SIZE_TAG))
    return team, sizes


@dataclass(frozen=True)
class Meter:
    """The cost of a month until a time, by scope. A scheduler's host goes on from the amount at its
    run's start, by the hourly prices of running hosts.
    """

    at: datetime.datetime
    spent: Spent = field(default_factory=dict)

    @classmethod
    def of(cls, month: MonthSpent, owner: str, team: str) -> Meter:
        """Return the meter at the start of a run, from its document."""
        spent = {
            (scope, who): Decimal(str(getattr(month, scope)))
            for scope, who in scopes_of(owner, team)
        }
        return cls(datetime.datetime.fromisoformat(month.at), spent)

    def advanced(
        self, now: datetime.datetime, uses: Sequence[Use], scopes: Iterable[Scope]
    ) -> Meter:
        """Return the meter at a later time, as if these had run since; a new month begins at 0."""
        same = (now.year, now.month) == (self.at.year, self.at.month)
        since, before = (self.at, self.spent) if same else (month_begin(now), {})
        hours = Decimal(max((now - since).total_seconds(), 0.0)) / 3600
        costing = [replace(use, prepared=0) for use in uses]
        rates = {
            (scope, who): Running(costing).used(Cap(scope, who, "hourly_usd", _ZERO))
            for scope, who in scopes
        }
        return Meter(
            now, {key: before.get(key, _ZERO) + rate * hours for key, rate in rates.items()}
        )


# ---- the rule ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Excess:
    """A limit that a request would exceed."""

    cap: Cap
    used: Decimal
    #: The requested additional amount.
    asked: Decimal
    #: Cluster, its owner, and its part of what is used, the largest first.
    by: tuple[tuple[str, str, Decimal], ...] = ()
    set_by: str | None = None
    set_at: str | None = None

    @property
    def limit(self) -> str:
        """The limit, in words."""
        return f"{_whose(self.cap)} may use {_amount(self.cap.measure, self.cap.most)}"

    @property
    def in_use(self) -> str:
        """The amount in use, with its clusters and owners."""
        if self.cap.measure == MONTHLY:
            return f"{_plain(self.cap.measure, self.used)} are spent"
        if not self.used:
            return "none are in use"
        named = [
            f"{_plain(self.cap.measure, amount)} in {cluster} ({short_name(owner)})"
            for cluster, owner, amount in self.by[:_NAMED]
        ]
        more = len(self.by) - _NAMED
        return (
            f"{_plain(self.cap.measure, self.used)} are in use: {', '.join(named)}"
            f"{f' and {more} more clusters' if more > 0 else ''}"
        )

    @property
    def set(self) -> str:
        """Who has set the limit, and when."""
        if self.set_by is None:
            return "set by the network's settings"
        return f"set by {short_name(self.set_by)}" + (f" on {self.set_at}" if self.set_at else "")

    def __str__(self) -> str:
        return f"{self.limit} ({self.set}); {self.in_use}"

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as JSON data."""
        return {
            "scope": self.cap.scope,
            "who": self.cap.who,
            "measure": self.cap.measure,
            "limit": float(self.cap.most),
            "in_use": float(self.used),
            "asked": float(self.asked),
            "set_by": self.set_by,
            "set_at": self.set_at,
            "by": [
                {"cluster": cluster, "owner": owner, "amount": float(amount)}
                for cluster, owner, amount in self.by
            ],
        }


def excesses(
    limits: Limits, running: Running, owner: str, team: str, asked: Sequence[tuple[int, Size]]
) -> list[Excess]:
    """Return the limits that numbers of hosts would exceed beside what runs."""
    found = []
    for cap in limits.caps(owner, team):
        used = running.used(cap)
        more = sum((n * (size.amount(cap.measure) or _ZERO) for n, size in asked), _ZERO)
        if cap.measure == MONTHLY:
            is_over = used >= cap.most and any(n for n, _ in asked)
        else:
            # What needs nothing of a measure may run beside others' excess.
            is_over = more > 0 and used + more > cap.most
        if is_over:
            found.append(excess_of(limits, running, cap, more))
    return found


def fitting(
    limits: Limits, running: Running, owner: str, team: str, *, size: Size, asked: int
) -> tuple[int, Excess | None]:
    """Return how many of so many more hosts may run, and the limit that is reached then."""
    allowed, by = max(asked, 0), None
    for cap in limits.caps(owner, team):
        used, each = running.used(cap), size.amount(cap.measure) or _ZERO
        if cap.measure == MONTHLY:
            fits = 0 if used >= cap.most else allowed
        else:
            fits = int(max(cap.most - used, _ZERO) // each) if each else allowed
        if fits < allowed:
            allowed, by = fits, excess_of(limits, running, cap, asked * each)
    return allowed, by


def excess_of(limits: Limits, running: Running, cap: Cap, asked: Decimal = _ZERO) -> Excess:
    """Return a limit with its use, for a request of so much more."""
    by: dict[tuple[str, str], Decimal] = {}
    for use in running.counted(cap):
        if amount := use.amount(cap.measure):
            key = use.cluster, use.owner
            by[key] = by.get(key, _ZERO) + amount
    rows = sorted(by.items(), key=lambda row: (-row[1], row[0]))
    return Excess(
        cap,
        running.used(cap),
        asked,
        tuple((cluster, owner, amount) for (cluster, owner), amount in rows),
        limits.set_by,
        limits.set_at,
    )


# ---- words ---------------------------------------------------------------------------------------


def short_name(arn: str) -> str:
    """Return the caller's name in an ARN: the user, or the role with its session."""
    return arn.rpartition(":")[2].partition("/")[2] or arn or "unknown"


def _whose(cap: Cap) -> str:
    if cap.scope == "workspace":
        return "the workspace"
    if cap.scope == "owner":
        return f"owner {short_name(cap.who)}"
    return f"team {cap.who}" if cap.who else "all clusters without a team together"


def _amount(measure: str, amount: Decimal) -> str:
    how = "" if measure == MONTHLY else " at once"
    name = MEASURES[measure]
    if amount == 0:
        return f"no {name}"
    if amount == 1 and name.endswith("s"):
        name = name[:-1]
    return f"{_plain(measure, amount)} {name}{how}"


def _plain(measure: str, amount: Decimal) -> str:
    if measure.endswith("_usd"):
        return format(amount.quantize(_CENT), "f")
    return format(amount.normalize() if amount else _ZERO, "f")
