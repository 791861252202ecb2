"""``LiveView``: build the view of a cluster that widgets and ``status --watch`` draw. No calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal

from terradask._common.naming import counted
from terradask._common.text_table import duration
from terradask._observe.shortfall import Pool
from terradask._observe.status import OVER, DeploymentStatus, hosts_by_state, scheduler_text
from terradask._observe.verdict import Verdict
from terradask_host.documents import HostReport, LifetimePolicy, Run
from terradask_host.scaling_policy import ScalingPolicy
from terradask_stacks.hardware.quantities import bytes_text

#: State of a host, as in `events.STATE_OF_STEP` -> the sentence about waiting.
_WAITS = {
    "requested": "AWS launches {}",
    "launched": "{} boot",
    "booting": "{} read their configuration",
    "environment": "{} get their packages",
    "waiting": "{} wait for the scheduler",
    "starting": "Dask starts on {}",
    "leaving": "{} leave",
}
#: Label of the link to the dashboard, which contains a token.
DASHBOARD = "dashboard"

#: Order of hosts: the most important states first.
_ORDER = ("failed", "leaving", "booting", "environment", "waiting", "starting", "launched")


@dataclass(frozen=True)
class GroupRow:
    """An Auto Scaling group, with its hosts by state."""

    name: str
    desired: int
    instances: int
    market: str
    types: tuple[str, ...]
    states: Mapping[str, int]

    @property
    def first_type(self) -> str:
        """The first instance type, and the number of others."""
        more = len(self.types) - 1
        return self.types[0] + (f" and {more} more" if more > 0 else "")


@dataclass(frozen=True)
class HostRow:
    """A host's state, its age and reason, and the known totals of its Dask workers."""

    instance_id: str
    group: str
    state: str
    #: Time in that state; None if unknown.
    seconds: float | None = None
    reason: str | None = None
    #: Total threads and memory of its workers.
    threads: int | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True)
class LiveView:
    """A cluster at one moment, as `Cluster`'s widget and ``terradask status --watch`` draw it.

    Parameters
    ----------
    name
        The cluster's name.
    state
        As in `DeploymentStatus`; or ``making``, before it is deployed and started.
    facts
        Label and value, such as ``("zone", "us-east-1a")``.
    groups
        Its Auto Scaling groups, each with ``name``, ``desired``, ``instances``, ``market``,
        ``types`` and ``states`` (state of a host -> number of hosts). Empty while it is made.
    waits
        Reasons for waiting, a sentence each.
    hosts
        Hosts, failed ones first, running ones last. Each has ``instance_id``, ``group``, ``state``,
        ``seconds``, ``reason``, ``threads`` and ``memory_bytes``.
    hidden
        State -> number of hosts left out of that list.
    problems
        Problems of the cluster, and what helps, a sentence each.
    notes
        Notes that stay in sight, such as packages that hosts won't have.
    step
        The present step, such as a phase of making the cluster, if there is one.
    verdict
        The first line, and the next command; None while the cluster is made.
    """

    name: str
    state: str
    facts: tuple[tuple[str, str], ...] = ()
    groups: tuple[GroupRow, ...] = ()
    waits: tuple[str, ...] = ()
    hosts: tuple[HostRow, ...] = ()
    hidden: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    step: str | None = None
    problems: tuple[str, ...] = ()
    verdict: Verdict | None = None

    def with_hosts(self, most: int) -> LiveView:
        """Return the view with at most so many hosts; ``hidden`` counts the others."""
        hidden = Counter(self.hidden)
        hidden.update(host.state for host in self.hosts[most:])
        return replace(self, hosts=self.hosts[:most], hidden=dict(hidden))

    @property
    def without_ages(self) -> LiveView:
        """The view without values that change with time alone, for comparisons."""
        return replace(
            self,
            facts=tuple(fact for fact in self.facts if fact[0] != "for"),
            hosts=tuple(replace(host, seconds=None) for host in self.hosts),
        )


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
    hourly_usd: Decimal | None = None,
    workers: Sequence[JoinedWorker] = (),
    waits: Sequence[str] = (),
    dashboard_link: str | None = None,
) -> LiveView:
    """Build the view of a status, its run, and the scheduler's workers."""
    facts = _facts(status, pools, run=run, hourly_usd=hourly_usd, workers=workers, now=now)
    if dashboard_link:
        facts.append((DASHBOARD, dashboard_link))
    order = list(pools)
    groups = tuple(
        GroupRow(
            name,
            numbers["desired"],
            numbers["instances"],
            pools[name].market,
            pools[name].instance_types,
            hosts_by_state({name: numbers}, [h for h in status.hosts if h.group == name]),
        )
        for name, numbers in sorted(status.groups.items(), key=lambda each: order.index(each[0]))
    )
    hosts = sorted(status.hosts, key=lambda host: (_position(host.state), host.at))
    by_host: dict[str, list[JoinedWorker]] = {}
    for each in workers:
        by_host.setdefault(each.instance_id, []).append(each)
    return LiveView(
        status.name,
        status.state,
        tuple(facts),
        groups,
        (*waits, *_waits(groups)),
        # The events report the hosts that are gone.
        tuple(
            _row(host, by_host.get(host.instance_id, ()), now)
            for host in hosts
            if host.state not in OVER
        ),
        problems=status.problems,
        verdict=status.verdict,
    )


def _facts(
    status: DeploymentStatus,
    pools: Mapping[str, Pool],
    *,
    run: Run | None,
    hourly_usd: Decimal | None,
    workers: Sequence[JoinedWorker],
    now: datetime,
) -> list[tuple[str, str]]:
    zones = sorted({zone for pool in pools.values() for zone in pool.zones})
    facts = {
        "for": None if status.started_at is None else _age(status.started_at, now),
        "owner": status.owner,
        "zone": ", ".join(zones),
        "price": None if hourly_usd is None else f"${hourly_usd:.4f} an hour",
        "software": None if run is None else _software(run),
        "adapts": adapting_text(status.adapting),
        "limits": _limits(status.max_workers, None if run is None else run.life),
        "scheduler": scheduler_text(status),
        "dask": _dask(workers) if workers else None,
        "ended": status.why_ended,
    }
    return [(label, value) for label, value in facts.items() if value]


def adapting_text(policies: Mapping[str, ScalingPolicy]) -> str:
    """Return the bounds of adaptive groups, ``workers: 4 to 20``; empty if none adapts."""
    return ", ".join(
        f"{group}: {policy.minimum} to {policy.maximum}"
        for group, policy in sorted(policies.items())
    )


def _software(run: Run) -> str:
    if run.container is not None:
        return run.container
    by_hash = ", by hash" if run.hashed else ""
    return f"Python {run.python}, {len(run.packages):,} packages{by_hash}"


def _limits(max_workers: int, life: LifetimePolicy | None) -> str:
    ends = {
        "{} idle": None if life is None else life.idle_timeout_seconds,
        "{} without a client": None if life is None else life.no_client_timeout_seconds,
        "{} in all": None if life is None else life.max_lifetime_seconds,
    }
    after = [text.format(duration(seconds)) for text, seconds in ends.items() if seconds]
    most = f"{max_workers:,} workers"
    return f"{most}; ends after {', or '.join(after)}" if after else most


def _dask(workers: Sequence[JoinedWorker]) -> str:
    threads = sum(each.threads for each in workers)
    return f"{counted(len(workers), 'worker')}, {threads:,} threads, {bytes_text(_memory(workers))}"


def _memory(workers: Iterable[JoinedWorker]) -> int:
    return sum(each.memory_bytes for each in workers)


def _waits(groups: Sequence[GroupRow]) -> tuple[str, ...]:
    return tuple(
        sentence.format(f"{group.states[state]} of {group.name}")
        for group in groups
        for state, sentence in _WAITS.items()
        if group.states.get(state)
    )


def _position(state: str) -> int:
    return _ORDER.index(state) if state in _ORDER else len(_ORDER)


def _row(host: HostReport, workers: Sequence[JoinedWorker], now: datetime) -> HostRow:
    return HostRow(
        host.instance_id,
        host.group,
        host.state,
        _seconds(host.at, now),
        host.reason,
        threads=sum(each.threads for each in workers) if workers else None,
        memory_bytes=_memory(workers) if workers else None,
    )


def _age(moment: str, now: datetime) -> str:
    seconds = int(_seconds(moment, now) or 0)
    hours, minutes = divmod(seconds // 60, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {seconds % 60:02} s"


def _seconds(moment: str, now: datetime) -> float | None:
    """Return the time since a moment; None without one."""
    if not moment:
        return None
    return max(0.0, (now - datetime.fromisoformat(moment).astimezone(UTC)).total_seconds())
