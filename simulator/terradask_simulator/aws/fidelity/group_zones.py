"""Spread a group's instances over zones: launch in the emptiest zone, terminate in the fullest, and
rebalance.

moto puts all instances into the first subnet.

AWS (documented): Auto Scaling launches in the zone with the fewest instances, and balances zones
that have come to differ. https://docs.aws.amazon.com/autoscaling/ec2/userguide/auto-scaling-benefits.html

AWS (documented): Zones are balanced in scaling out and in even while ``AZRebalance`` is suspended.
https://docs.aws.amazon.com/autoscaling/ec2/userguide/as-suspend-resume-processes.html
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

__all__ = [
    "JOINING",
    "Place",
    "imbalance",
    "members",
    "places_of",
    "scale_in_candidates",
    "spread",
    "warmed",
]

#: States of members from their launch until they are in service.
JOINING = ("Pending", "Pending:Wait")


@dataclass(frozen=True)
class Place:
    """A subnet of a group, or a zone if the group names no subnets."""

    subnet_id: str | None
    zone: str


def members(group: Any) -> list[Any]:
    """Return the states of a group's running and pending instances."""
    return [
        state for state in group.instance_states if state.lifecycle_state in ("InService", *JOINING)
    ]


def warmed(group: Any) -> list[Any]:
    """Return the states of the instances in a group's warm pool: the list that the group keeps."""
    return group.__dict__.setdefault("_embedded_warmed", [])


def places_of(group: Any) -> list[Place]:
    """Return the places where a group may launch."""
    known = {subnet.id: subnet.availability_zone for subnet in group.ec2_backend.describe_subnets()}
    zones = list(group.availability_zones or ())
    if not group.vpc_zone_identifier:
        return [Place(None, zone) for zone in zones] or [Place(None, "")]
    # A deleted subnet stays a place: the launch there fails with the reason.
    return [
        Place(subnet, known.get(subnet, next(iter(zones), "")))
        for subnet in group.vpc_zone_identifier.split(",")
    ]


def spread(group: Any, count: int, without: Collection[Place] = ()) -> Counter[Place]:
    """Distribute a group's next instances: each to the zone with fewest, and there to the subnet
    with fewest.
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


def scale_in_candidates(group: Any, count: int) -> list[Any]:
    """Return the states of the instances that scale-in terminates: in the fullest zone, by the
    termination policy.
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


def imbalance(group: Any) -> tuple[Any, list[Place]] | None:
    """Return the instance to move to balance the zones, and its possible places; None if the zones
    are balanced.
    """
    places = places_of(group)
    in_zone = Counter({place.zone: 0 for place in places})
    in_zone.update(state.instance.placement.zone for state in members(group))
    fullest = max(in_zone, key=lambda zone: in_zone[zone])
    victim = next(
        (
            state
            for state in scale_in_candidates(group, 1)
            if state.instance.placement.zone == fullest
        ),
        None,
    )
    targets = [place for place in places if in_zone[fullest] - in_zone[place.zone] > 1]
    return (
        (victim, sorted(targets, key=lambda place: in_zone[place.zone]))
        if victim is not None and targets
        else None
    )
