"""Where a group's instances lie: launched where there are fewest, ended where there are most, moved
when zones are out of balance.

moto puts all of them into the first subnet. AWS:
https://docs.aws.amazon.com/autoscaling/ec2/userguide/auto-scaling-benefits.html (distribution,
rebalancing), https://docs.aws.amazon.com/autoscaling/ec2/userguide/as-suspend-resume-processes.html
(zones are balanced in scaling out and in even while ``AZRebalance`` is suspended).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

__all__ = ["Place", "lopsided", "members", "places_of", "spread", "to_end"]


@dataclass(frozen=True)
class Place:
    """A subnet of a group, or a zone where the group names no subnets."""

    subnet_id: str | None
    zone: str


def members(group: Any) -> list[Any]:
    """Return the states of a group's instances that run, or soon will."""
    return [
        state
        for state in group.instance_states
        if state.lifecycle_state in ("InService", "Pending")
    ]


def places_of(group: Any) -> list[Place]:
    """Return where a group may launch."""
    known = {subnet.id: subnet.availability_zone for subnet in group.ec2_backend.describe_subnets()}
    zones = list(group.availability_zones or ())
    if not group.vpc_zone_identifier:
        return [Place(None, zone) for zone in zones] or [Place(None, "")]
    # A subnet that is gone stays a place: the launch there fails with the reason.
    return [
        Place(subnet, known.get(subnet, next(iter(zones), "")))
        for subnet in group.vpc_zone_identifier.split(",")
    ]


def spread(group: Any, count: int, without: Collection[Place] = ()) -> Counter[Place]:
    """Return how many of a group's next instances go where: to the zone that has fewest, there to
    the subnet that has fewest.
    """
    shares: Counter[Place] = Counter()
    places = [place for place in places_of(group) if place not in without]
    if not places:
        return shares
    in_zone = Counter(state.instance.placement.zone for state in members(group))
    in_subnet = Counter(state.instance.subnet_id for state in members(group))
    for _ in range(count):
        place = min(places, key=lambda one: (in_zone[one.zone], in_subnet[one.subnet_id]))
        shares[place] += 1
        in_zone[place.zone] += 1
        in_subnet[place.subnet_id] += 1
    return shares


def to_end(group: Any, count: int) -> list[Any]:
    """Return the states of the instances that scaling in ends: of the zone that has most, as the
    termination policy says.
    """
    left = Counter(state.instance.placement.zone for state in members(group))
    waiting: dict[str, list[Any]] = {}
    for state in members(group):
        if not state.protected_from_scale_in:
            waiting.setdefault(state.instance.placement.zone, []).append(state)
    if "NewestInstance" not in group.termination_policies:
        # Taken from the end.
        for states in waiting.values():
            states.reverse()
    victims: list[Any] = []
    while waiting and len(victims) < count:
        zone = max(waiting, key=lambda one: left[one])
        victims.append(waiting[zone].pop())
        left[zone] -= 1
        if not waiting[zone]:
            del waiting[zone]
    return victims


def lopsided(group: Any) -> tuple[Any, list[Place]] | None:
    """Return which instance would be moved to balance the zones, and the places that it would be
    moved to; None where they are balanced.
    """
    places = places_of(group)
    in_zone = Counter({place.zone: 0 for place in places})
    in_zone.update(state.instance.placement.zone for state in members(group))
    fullest = max(in_zone, key=lambda zone: in_zone[zone])
    victim = next(
        (state for state in to_end(group, 1) if state.instance.placement.zone == fullest), None
    )
    targets = [place for place in places if in_zone[fullest] - in_zone[place.zone] > 1]
    return (
        (victim, sorted(targets, key=lambda place: in_zone[place.zone]))
        if victim is not None and targets
        else None
    )
