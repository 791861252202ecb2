"""``LiveView``: a cluster at one moment, as widgets, reprs and ``status --watch`` draw it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal

from terradask._observe.making import Step
from terradask._observe.verdict import Verdict

#: So many instance types of a group's hosts are named.
_TYPES = 3


@dataclass(frozen=True)
class GroupRow:
    """An Auto Scaling group, with its hosts by state."""

    name: str
    desired: int
    instances: int
    market: str
    types: tuple[str, ...]
    states: Mapping[str, int]
    #: Of its hosts with workers: all threads, those that are busy, memory in use and its limit;
    #: None if unknown.
    threads: int | None = None
    busy_threads: float | None = None
    used_bytes: float | None = None
    memory_bytes: int | None = None

    #: Instance type -> number of its hosts, of those whose type is known.
    launched: Mapping[str, int] = field(default_factory=dict)

    @property
    def hardware(self) -> str:
        """The instance types of its hosts, the most frequent first; without hosts, the type that
        comes first and the number of others.
        """
        if self.launched:
            ordered = sorted(self.launched.items(), key=lambda each: (-each[1], each[0]))
            if len(ordered) == 1:
                return ordered[0][0]
            shown = ", ".join(f"{number:,} {name}" for name, number in ordered[:_TYPES])
            more = sum(number for _, number in ordered[_TYPES:])
            return shown + (f", {more:,} of other types" if more else "")
        others = len(self.types) - 1
        if not others:
            return self.types[0]
        return f"{self.types[0]} or {f'{others} others' if others > 1 else self.types[1]}"


@dataclass(frozen=True)
class HostRow:
    """A host's state, its age and reason, and the known totals of its Dask workers."""

    instance_id: str
    group: str
    state: str
    #: Time in that state; None if unknown.
    seconds: float | None = None
    reason: str | None = None
    #: Total threads and memory of its workers, and what of them is in use.
    threads: int | None = None
    memory_bytes: int | None = None
    busy_threads: float | None = None
    used_bytes: float | None = None


@dataclass(frozen=True)
class Price:
    """The price of a cluster, in US dollars.

    Parameters
    ----------
    hourly_usd
        Price of its instances by the hour; None if unknown.
    spent_usd
        Cost of the run's instances so far; None if unknown.
    is_whole
        Whether that includes all instances: those that ended before this client came aren't known.
    planned_hourly_usd
        Price by the hour of the instances that are going to be launched; None if unknown.
    """

    hourly_usd: Decimal | None = None
    spent_usd: Decimal | None = None
    is_whole: bool = True
    planned_hourly_usd: Decimal | None = None


@dataclass(frozen=True)
class Use:
    """The present use of an attached cluster's workers, by the scheduler's own numbers.

    Parameters
    ----------
    hosts
        Instance id -> its busy threads and bytes of memory.
    tasks
        State of a task, such as ``processing`` -> number of tasks.
    done
        Number of results since the scheduler's start.
    idle_seconds
        Time without work; 0 with some.
    idle_timeout_seconds, no_client_timeout_seconds
        The timeouts in force; None: never.
    """

    hosts: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    tasks: Mapping[str, int] = field(default_factory=dict)
    done: int = 0
    idle_seconds: float = 0.0
    idle_timeout_seconds: float | None = None
    no_client_timeout_seconds: float | None = None


@dataclass(frozen=True)
class LiveView:
    """A cluster at one moment, as `Cluster`'s widget and ``terradask status --watch`` draw it.

    Parameters
    ----------
    name
        The cluster's name.
    state
        As in `DeploymentStatus`; or before it runs ``connecting``, ``making``, ``starting`` or
        ``attaching``; and at the end ``failed``, ``interrupted``, ``closed`` or ``left running``.
    facts
        Label and value, such as ``("zone", "us-east-1a")``.
    groups
        Its Auto Scaling groups, each with ``name``, ``desired``, ``instances``, ``market``,
        ``types``, ``states`` (state of a host -> number of hosts), ``launched`` (instance type
        -> number of hosts), and what its workers use.
        Before the launch they are as planned.
    waits
        Reasons for waiting longer, a sentence each.
    hosts
        Hosts, failed ones first, running ones last. Each has ``instance_id``, ``group``, ``state``,
        ``seconds``, ``reason``, ``threads`` and ``memory_bytes``.
    problems
        Problems of the cluster, and what helps, a sentence each.
    notes
        Notes that stay in sight, such as packages that hosts won't have.
    step
        The present step, such as a phase of making the cluster, if there is one.
    steps
        All steps of making it, until it is there.
    seconds
        Time since its start; None if unknown.
    price
        Its price; None if nothing is known.
    ends
        The reasons and times of its end, a part of a sentence each.
    links
        Label and address, such as of the dashboard, which contains a token, and of its logs.
    use
        Use of its workers; None without a connection to its scheduler.
    last
        A line on its work and cost, once it is closed.
    verdict
        The first line, and the next command; None while the cluster is made.
    at
        The time of the view, in UTC.
    """

    name: str
    state: str
    facts: tuple[tuple[str, str], ...] = ()
    groups: tuple[GroupRow, ...] = ()
    waits: tuple[str, ...] = ()
    hosts: tuple[HostRow, ...] = ()
    notes: tuple[str, ...] = ()
    step: str | None = None
    problems: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    seconds: float | None = None
    price: Price | None = None
    ends: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    use: Use | None = None
    last: str | None = None
    verdict: Verdict | None = None
    at: datetime | None = None

    @property
    def without_ages(self) -> LiveView:
        """The view without values that change with time alone, for comparisons."""
        use = self.use and replace(self.use, idle_seconds=0.0, hosts={})
        return replace(
            self,
            at=None,
            seconds=None,
            hosts=tuple(replace(host, seconds=None) for host in self.hosts),
            price=self.price and replace(self.price, spent_usd=None),
            ends=(),
            use=use,
            steps=tuple(replace(step, seconds=int(step.seconds or 0)) for step in self.steps),
        )
