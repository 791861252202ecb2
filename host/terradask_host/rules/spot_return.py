"""Decides when on-demand hosts that replaced missing Spot instances are exchanged again. Pure.

First a few Spot instances are requested. When they have joined, as many on-demand hosts are
retired. So a group has a few hosts more for a while, and never more than its maximum.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from terradask_host.rules.load import Load
from terradask_host.rules.markets import lacking, most_expensive_first
from terradask_host.rules.scaling import WorkersSeen
from terradask_host.scaling_policy import Exchange

#: Number of hosts that change their market at a time.
AT_ONCE = 3


@dataclass(frozen=True)
class Begin:
    """Request Spot instances in place of on-demand hosts."""

    exchange: Exchange
    spot: str
    number: int


@dataclass(frozen=True)
class Cut:
    """Cancel requests of Spot instances that don't come."""

    spot: str
    number: int
    count: int


@dataclass(frozen=True)
class Retire:
    """Move the data of on-demand hosts to others, and end them."""

    instance_ids: tuple[str, ...]


@dataclass(frozen=True)
class Over:
    """The exchange is over; `done` unless something else has changed the group's number."""

    done: bool


Step = Cut | Retire | Over


def surplus(exchange: Exchange, seen: WorkersSeen) -> int:
    """Return how many hosts are requested beyond the final number.

    0 if another number was set by something else, which takes precedence.
    """
    if exchange.spot is not None:
        return 0
    more = seen.planned - exchange.planned
    return more if 0 < more <= exchange.count else 0


def may_begin(seen: WorkersSeen, closed: Collection[str]) -> bool:
    """Return whether a group could go back to Spot: it has on-demand hosts, and no other change.

    `closed` are Auto Scaling groups that launch nothing now.
    """
    return bool(
        len(seen.chain) > 1
        and seen.chain[0].name not in closed
        and any(group.active_ids for group in seen.chain[1:])
        and not any(map(lacking, seen.chain))
        and not seen.leaving_count
        and _room(seen) > 0
    )


def _room(seen: WorkersSeen) -> int:
    """Return how many further Spot instances may be requested."""
    spot = seen.chain[0]
    stand_ins = sum(len(group.active_ids) for group in seen.chain[1:])
    return min(AT_ONCE, stand_ins, spot.max_size - spot.desired, seen.most - seen.planned)


def begin(seen: WorkersSeen, closed: Collection[str], joined: Collection[str]) -> Begin | None:
    """Return the next exchange, of a group all of whose hosts have joined."""
    if not may_begin(seen, closed) or not set(seen.active) <= set(joined):
        return None
    count, spot = _room(seen), seen.chain[0]
    return Begin(Exchange(seen.planned, count), spot.name, spot.desired + count)


def go_on(
    exchange: Exchange, seen: WorkersSeen, stuck: Collection[str], load: Load | None
) -> Step | None:
    """Return the next step of an exchange; None: it waits.

    `stuck` are Auto Scaling groups that get no instances now. Without a `load`, none is retired.
    """
    more, spot = surplus(exchange, seen), seen.chain[0]
    if not more:
        # A retirement may be reversed: other hosts may lack memory for the data.
        return None if seen.leaving_count else Over(seen.planned == exchange.planned)
    missing = min(lacking(spot), more)
    if missing:
        cut = Cut(spot.name, spot.desired - missing, missing)
        return cut if spot.name in stuck else None
    return _retire(seen, more, load) if load is not None else None


def _retire(seen: WorkersSeen, more: int, load: Load) -> Retire | None:
    if not set(seen.chain[0].active_ids) <= load.joined:
        return None
    stand_ins = {one for group in seen.chain[1:] for one in group.active_ids}
    # Some of those may be leaving: retired by a host program that has ended since.
    count = more - len(stand_ins - load.joined - seen.leaving)
    closable = [one for one in load.closable if one in stand_ins and one not in seen.leaving]
    cheapest = most_expensive_first(closable, set(load.idle), seen.chain)
    return Retire(tuple(cheapest[:count])) if count > 0 and cheapest else None
