"""What a person sees of a cluster while it is made, scaled, healed and ended. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

from terradask._deployments.overview import hosts_by_state
from terradask._deployments.shortfall import Pool
from terradask._deployments.status import DeploymentStatus
from terradask_host.documents import HostReport

#: State of a host, as `timeline.STATE_OF_STEP` has them -> what it waits for.
_WAITS = {
    "requested": "AWS launches {}",
    "launched": "{} boot",
    "booting": "{} read what they run",
    "environment": "{} get their packages",
    "waiting": "{} look for the scheduler",
    "starting": "Dask starts on {}",
    "leaving": "{} leave",
}
#: What to look at first.
_ORDER = ("failed", "lost", "leaving", "booting", "environment", "waiting", "starting")


@dataclass(frozen=True)
class GroupRow:
    """An Auto Scaling group, with its hosts by state."""

    name: str
    desired: int
    instances: int
    market: str
    types: tuple[str, ...]
    states: Mapping[str, int]


@dataclass(frozen=True)
class HostRow:
    """A host, since when it is in its state, and why."""

    instance_id: str
    group: str
    state: str
    seconds: float
    reason: str | None


@dataclass(frozen=True)
class LiveView:
    """A cluster at one moment.

    Parameters
    ----------
    facts
        Label and value, such as ``("zone", "us-east-1a")``.
    groups
        Its Auto Scaling groups.
    waits
        What is being waited for, a sentence each; none if nothing is.
    hosts
        Those to look at: failed ones first, running ones last.
    hidden
        State -> how many hosts are left out of that list.
    """

    name: str
    state: str
    facts: tuple[tuple[str, str], ...]
    groups: tuple[GroupRow, ...]
    waits: tuple[str, ...]
    hosts: tuple[HostRow, ...]
    hidden: Mapping[str, int]


def live_view(
    status: DeploymentStatus,
    pools: Mapping[str, Pool],
    *,
    hourly_usd: Decimal | None,
    now: datetime,
    most_hosts: int,
) -> LiveView:
    """Return what to show of a status, with so many hosts at most."""
    groups = tuple(
        GroupRow(
            name,
            numbers["desired"],
            numbers["instances"],
            pools[name].market,
            pools[name].instance_types,
            hosts_by_state({name: numbers}, [h for h in status.hosts if h.group == name]),
        )
        for name, numbers in status.groups.items()
    )
    hosts = sorted(status.hosts, key=lambda host: (_position(host.state), host.at))
    # Those that are gone are told by the events.
    there = [host for host in hosts if host.state != "left"]
    return LiveView(
        status.name,
        status.state,
        tuple(_facts(status, pools, hourly_usd, now)),
        groups,
        _waits(groups),
        tuple(_row(host, now) for host in there[:most_hosts]),
        Counter(host.state for host in there[most_hosts:]),
    )


def _facts(
    status: DeploymentStatus,
    pools: Mapping[str, Pool],
    hourly_usd: Decimal | None,
    now: datetime,
) -> list[tuple[str, str]]:
    zones = sorted({zone for pool in pools.values() for zone in pool.zones})
    facts = {
        "for": None if status.started_at is None else _age(status.started_at, now),
        "owner": status.owner,
        "zone": ", ".join(zones),
        "price": None if hourly_usd is None else f"${hourly_usd:.4f} an hour",
        "scheduler": status.scheduler_address,
        "ended": status.why_ended,
    }
    return [(label, value) for label, value in facts.items() if value]


def _waits(groups: Sequence[GroupRow]) -> tuple[str, ...]:
    return tuple(
        sentence.format(f"{group.states[state]} of {group.name}")
        for group in groups
        for state, sentence in _WAITS.items()
        if group.states.get(state)
    )


def _position(state: str) -> int:
    return _ORDER.index(state) if state in _ORDER else len(_ORDER)


def _row(host: HostReport, now: datetime) -> HostRow:
    return HostRow(host.instance_id, host.group, host.state, _seconds(host.at, now), host.reason)


def _age(moment: str, now: datetime) -> str:
    seconds = int(_seconds(moment, now))
    hours, minutes = divmod(seconds // 60, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {seconds % 60:02} s"


def _seconds(moment: str, now: datetime) -> float:
    return max(0.0, (now - datetime.fromisoformat(moment).astimezone(UTC)).total_seconds())
