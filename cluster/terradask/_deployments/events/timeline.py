"""Merge the observations of hosts, from AWS and from the hosts, into one timeline. Pure.

The host program reports finer states (`terradask_host.states`), which are steps of those here.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from terradask._common.clock import utc_text

HostState = Literal["requested", "launched", "booting", "joined", "retiring", "gone", "failed"]

#: State -> the states that may follow it; ``docs/running.md`` says why. The first is ``requested``.
EDGES: Mapping[HostState, tuple[HostState, ...]] = {
    "requested": ("launched", "booting", "retiring", "failed"),
    "launched": ("booting", "retiring", "gone"),
    "booting": ("joined", "retiring", "gone", "failed"),
    "joined": ("booting", "retiring", "gone", "failed"),
    "retiring": ("gone", "failed"),
    "failed": ("booting", "retiring", "gone"),
    "gone": (),
}

#: The host program's states, as steps of these.
STATE_OF_STEP: Mapping[str, HostState] = {
    "booting": "booting",
    "environment": "booting",
    "waiting": "booting",
    "starting": "booting",
    "running": "joined",
    "leaving": "retiring",
    "left": "retiring",
    "failed": "failed",
}


def may_follow(before: HostState | None, after: HostState) -> bool:
    """Return whether a state may follow another; any may follow None, an unknown one."""
    return before is None or after in EDGES[before]


_ORDER = {state: position for position, state in enumerate(EDGES)}


@dataclass(frozen=True)
class Event:
    """One step in the life of a cluster.

    Parameters
    ----------
    at
        Time in UTC.
    subject
        ``cluster``, a group's name, or an instance id.
    group
        The group of a host; None for the cluster.
    state
        The new state: of a host as in ``events.host_states``, of a cluster as in
        `DeploymentStatus`.
    step
        The step within that state, by the host program's name for it; None without one.
    reason
        The reason, if AWS or a host reported one.
    """

    at: datetime.datetime
    subject: str
    group: str | None
    state: str
    step: str | None = None
    reason: str | None = None

    def __str__(self) -> str:
        step = f" ({self.step})" if self.step else ""
        reason = f": {self.reason}" if self.reason else ""
        return f"{self.at:%Y-%m-%d %H:%M:%SZ}  {self.subject}  {self.state}{step}{reason}"

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON output."""
        return {**asdict(self), "at": utc_text(self.at)}


@dataclass(frozen=True)
class Observation:
    """A host's state as AWS or the host reported it."""

    at: datetime.datetime
    instance_id: str
    group: str
    state: HostState
    step: str | None = None
    reason: str | None = None


def merge(observations: Iterable[Observation], others: Iterable[Event] = ()) -> list[Event]:
    """Return the events, oldest first.

    Hosts report whole seconds; within one, states are sorted by their order. AWS and the host may
    still disagree: a state that can't follow the host's current one was observed late and is left
    out.
    """
    present: dict[str, tuple[HostState, str | None]] = {}
    events = list(others)
    for seen in sorted(observations, key=lambda each: (_second(each.at), _ORDER[each.state])):
        state, step = present.get(seen.instance_id, (None, None))
        goes_on = seen.state == state and seen.step not in (None, step)
        if goes_on or may_follow(state, seen.state):
            present[seen.instance_id] = seen.state, seen.step
            events.append(
                Event(
                    _second(seen.at),
                    seen.instance_id,
                    seen.group,
                    seen.state,
                    seen.step,
                    seen.reason,
                )
            )
    return sorted(events, key=lambda event: _second(event.at))


def _second(at: datetime.datetime) -> datetime.datetime:
    return at.replace(microsecond=0)
