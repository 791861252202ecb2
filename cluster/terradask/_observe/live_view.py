"""``LiveView``: a cluster at one moment, as widgets, reprs and ``status --watch`` draw it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal

from terradask._common.clock import duration
from terradask._common.naming import counted
from terradask._observe.making import Step
from terradask._observe.shortfall import Pool
from terradask._observe.status import OVER, DeploymentStatus, hosts_by_state, scheduler_text
from terradask._observe.verdict import Verdict
from terradask_host.documents import HostReport, Run
from terradask_host.rules.lifetime import ends_at
from terradask_host.scaling_policy import ScalingPolicy
from terradask_modules.names import SCHEDULER_GROUP
from terradask_stacks.hardware.quantities import GIB

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


# ---- a view from a cluster's status and its scheduler's data -------------------------------------


#: Order of hosts: the most important states first.
_ORDER = ("failed", "leaving", "booting", "environment", "waiting", "starting", "launched")

#: Idle for longer, a cluster's end is counted down.
_IDLE_SECONDS = 30.0


@dataclass(frozen=True)
class JoinedWorker:
    """The scheduler's data of one Dask worker."""

    instance_id: str
    threads: int
    memory_bytes: int


def live_view(
    status: DeploymentStatus,
    pools: Mapping[str, Pool],
    *,
    now: datetime,
    run: Run | None = None,
    price: Price | None = None,
    workers: Sequence[JoinedWorker] = (),
    waits: Sequence[str] = (),
    links: Sequence[tuple[str, str]] = (),
    use: Use | None = None,
) -> LiveView:
    """Build the view of a status, its run, and the scheduler's workers."""
    order = list(pools)
    by_host: dict[str, list[JoinedWorker]] = {}
    for each in workers:
        by_host.setdefault(each.instance_id, []).append(each)
    hosts = [
        _row(host, by_host.get(host.instance_id, ()), use, now)
        # The events report the hosts that are gone.
        for host in sorted(status.hosts, key=_place)
        if host.state not in OVER
    ]
    groups = tuple(
        _group(name, status, pools[name], hosts) for name in sorted(status.groups, key=order.index)
    )
    return LiveView(
        status.name,
        status.state,
        tuple(_facts(status, pools, run=run, workers=workers)),
        groups,
        tuple(waits),
        tuple(hosts),
        problems=status.problems,
        seconds=None if status.started_at is None else _seconds(status.started_at, now),
        price=price,
        ends=_ends(status, run, use),
        links=tuple(links),
        use=use,
        verdict=status.verdict,
        at=now,
    )


def _group(name: str, status: DeploymentStatus, pool: Pool, hosts: Sequence[HostRow]) -> GroupRow:
    numbers = status.groups[name]
    own = [host for host in hosts if host.group == name and host.threads is not None]
    reports = [host for host in status.hosts if host.group == name]
    used = [host for host in own if host.busy_threads is not None]
    return GroupRow(
        name,
        numbers["desired"],
        numbers["instances"],
        pool.market,
        pool.instance_types,
        hosts_by_state({name: numbers}, reports),
        threads=sum(host.threads or 0 for host in own) if own else None,
        busy_threads=sum(host.busy_threads or 0 for host in used) if used else None,
        used_bytes=sum(host.used_bytes or 0 for host in used) if used else None,
        memory_bytes=sum(host.memory_bytes or 0 for host in own) if own else None,
        launched=Counter(
            host.instance_type for host in reports if host.instance_type and host.state not in OVER
        ),
    )


def _facts(
    status: DeploymentStatus,
    pools: Mapping[str, Pool],
    *,
    run: Run | None,
    workers: Sequence[JoinedWorker],
) -> list[tuple[str, str]]:
    zones = sorted({zone for pool in pools.values() for zone in pool.zones})
    facts = {
        "zone": ", ".join(zones),
        "dask": _dask(workers) if workers else None,
        "software": None if run is None else _software(run),
        "adapts": adapting_text(status.adapting),
        "limit": counted(status.max_workers, "worker"),
        "scheduler": scheduler_text(status),
        "owner": status.owner,
        "ended": status.why_ended,
    }
    return [(label, value) for label, value in facts.items() if value]


def _ends(status: DeploymentStatus, run: Run | None, use: Use | None) -> tuple[str, ...]:
    """Return what ends an active run, and when."""
    if run is None or run.life is None or status.ended is not None:
        return ()
    idle, alone = run.life.idle_timeout_seconds, run.life.no_client_timeout_seconds
    if use is not None:
        idle, alone = use.idle_timeout_seconds, use.no_client_timeout_seconds
    found = []
    if idle and use is not None and use.idle_seconds >= _IDLE_SECONDS:
        found.append(
            f"in {duration(idle - use.idle_seconds)} without work (idle for "
            f"{duration(use.idle_seconds)})"
        )
    elif idle:
        found.append(f"after {duration(idle)} without work")
    if alone:
        found.append(f"{duration(alone)} after its last client")
    return (*found, f"by {ends_at(run.life, run.started_at):%Y-%m-%d %H:%M} UTC")


def adapting_text(policies: Mapping[str, ScalingPolicy]) -> str:
    """Return the bounds of adaptive groups, ``workers: 4 to 20``; empty if none adapts."""
    return ", ".join(
        f"{group}: {policy.minimum:,} to {policy.maximum:,}"
        for group, policy in sorted(policies.items())
    )


def _software(run: Run) -> str:
    if run.container is not None:
        return run.container
    by_hash = ", by hash" if run.hashed else ""
    return f"Python {run.python}, {len(run.packages):,} packages{by_hash}"


def _dask(workers: Sequence[JoinedWorker]) -> str:
    threads, memory = sum(each.threads for each in workers), _memory(workers)
    return f"{counted(len(workers), 'worker')}, {threads:,} threads, {gib_text(memory)} GiB"


def gib_text(size: float) -> str:
    """Return a number of GiB. With a decimal, a sum of some hosts agrees with theirs."""
    amount = size / GIB
    return f"{amount:,.0f}" if amount >= 100 else f"{amount:.1f}"


def _memory(workers: Iterable[JoinedWorker]) -> int:
    return sum(each.memory_bytes for each in workers)


def _place(host: HostReport) -> tuple[int, bool, str]:
    position = _ORDER.index(host.state) if host.state in _ORDER else len(_ORDER)
    return position, host.group != SCHEDULER_GROUP, host.at


def _row(
    host: HostReport, workers: Sequence[JoinedWorker], use: Use | None, now: datetime
) -> HostRow:
    used = None if use is None else use.hosts.get(host.instance_id)
    return HostRow(
        host.instance_id,
        host.group,
        host.state,
        _seconds(host.at, now),
        host.reason,
        threads=sum(each.threads for each in workers) if workers else None,
        memory_bytes=_memory(workers) if workers else None,
        busy_threads=None if used is None else used[0],
        used_bytes=None if used is None else used[1],
    )


def _seconds(moment: str, now: datetime) -> float | None:
    """Return the time since a moment; None without one."""
    if not moment:
        return None
    return max(0.0, (now - datetime.fromisoformat(moment).astimezone(UTC)).total_seconds())
