"""From what was seen of hosts, by AWS and by themselves, to one timeline. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from terradask._common.clock import utc_text
from terradask._deployments.events.host_states import EDGES, HostState, may_follow

_ORDER = {state: position for position, state in enumerate(EDGES)}


@dataclass(frozen=True)
class Event:
    """One step in the life of a cluster.

    Parameters
    ----------
    at
        When, in UTC.
    subject
        ``cluster``, a group's name, or an instance id.
    group
        The group of a host; None for the cluster.
    state
        The state that it came to: of hosts those of ``_events.host_states``, of clusters those of `DeploymentStatus`.
    step
        How far within that state, in the host program's own words; None where it says no more.
    reason
        Why, where AWS or a host said so.
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
    """A host in a state, as AWS saw it, or the host itself."""

    at: datetime.datetime
    instance_id: str
    group: str
    state: HostState
    step: str | None = None
    reason: str | None = None


def merge(observations: Iterable[Observation], others: Iterable[Event] = ()) -> list[Event]:
    """Return the events, in the order of time.

    Hosts tell whole seconds: within one, states come in their order. Even so, two observers of one host don't agree: a state that can't
    follow the host's present one was seen late and is left out.
    """
    present: dict[str, tuple[HostState, str | None]] = {}
    events = list(others)
    for seen in sorted(observations, key=lambda each: (_second(each.at), _ORDER[each.state])):
        state, step = present.get(seen.instance_id, (None, None))
        goes_on = seen.state == state and seen.step not in (None, step)
        if goes_on or may_follow(state, seen.state):
            present[seen.instance_id] = seen.state, seen.step
            events.append(Event(_second(seen.at), seen.instance_id, seen.group, seen.state, seen.step, seen.reason))
    return sorted(events, key=lambda event: _second(event.at))


def _second(at: datetime.datetime) -> datetime.datetime:
    return at.replace(microsecond=0)
