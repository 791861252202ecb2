"""Capacity reservations of EC2: their names, and how an Auto Scaling group targets them. Pure."""

from __future__ import annotations

import re
from typing import Any

#: Any open reservation that matches, before on-demand capacity.
OPEN = "open"
#: No reservation, even an open one that matches.
NONE = "none"

RESERVATION_ID = r"cr-([0-9a-f]{8}|[0-9a-f]{17})"
GROUP_ARN = (
    r"arn:aws[a-z-]*:resource-groups:(?P<region>[a-z0-9-]+):(?P<account>[0-9]{12}):"
    r"group/[A-Za-z0-9_.-]{1,300}(/[a-z0-9]{26})?"
)

#: EC2's market type of a capacity block.
BLOCK = "capacity-block"


def is_targeted(reservation: str | None) -> bool:
    """Return whether a setting names a reservation, or a group of some."""
    return reservation not in (None, OPEN, NONE)


def is_group(reservation: str) -> bool:
    """Return whether a setting names a resource group of reservations."""
    return re.fullmatch(GROUP_ARN, reservation) is not None


def group_specification(reservation: str | None) -> dict[str, Any] | None:
    """Return an Auto Scaling group's ``capacity_reservation_specification``.

    AWS (documented, cr-preference): An Auto Scaling group with capacity-reservations-only launches
    only into its targets, with capacity-reservations-first on demand where reservations lack
    capacity, and with the preference "none" always on demand.
    https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_CapacityReservationSpecification.html
    """
    if reservation is None:
        return None
    if reservation == OPEN:
        return {"capacity_reservation_preference": "capacity-reservations-first"}
    if reservation == NONE:
        return {"capacity_reservation_preference": NONE}
    kind = (
        "capacity_reservation_resource_group_arns"
        if is_group(reservation)
        else "capacity_reservation_ids"
    )
    return {
        "capacity_reservation_preference": "capacity-reservations-only",
        "capacity_reservation_target": {kind: [reservation]},
    }
