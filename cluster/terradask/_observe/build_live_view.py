"""Build the view of a cluster from its status and the data of its scheduler. No calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from terradask._common.naming import counted
from terradask._common.text_table import duration
from terradask._observe.live_view import GroupRow, HostRow, LiveView, Price, Use
from terradask._observe.shortfall import Pool
from terradask._observe.status import OVER, DeploymentStatus, hosts_by_state, scheduler_text
from terradask_host.documents import HostReport, Run
from terradask_host.rules.lifetime import ends_at
from terradask_host.scaling_policy import ScalingPolicy
from terradask_modules.names import SCHEDULER_GROUP
from terradask_stacks.hardware.quantities import GIB

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
        f"{group}: {policy.minimum} to {policy.maximum}"
        for group, policy in sorted(policies.items())
    )


def _software(run: Run) -> str:
    if run.container is not None:
        return run.container
    by_hash = ", by hash" if run.hashed else ""
    return f"Python {run.python}, {len(run.packages):,} packages{by_hash}"


def _dask(workers: Sequence[JoinedWorker]) -> str:
    threads, memory = sum(each.threads for each in workers), _memory(workers)
    return f"{counted(len(workers), 'worker')}, {threads:,} threads, {memory / GIB:,.0f} GiB"


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
