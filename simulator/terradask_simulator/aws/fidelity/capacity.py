"""Pools without capacity: launches from them are refused in EC2's words.

A pool is an instance type in a zone on a market. moto's pools are bottomless.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

__all__ = ["SHORTAGES", "Shortage", "check_capacity", "offered", "room"]


@dataclass(frozen=True)
class Shortage:
    """Pools that have no capacity.

    Parameters
    ----------
    instance_type, zone, market
        Which pools; ``*`` stands for anything. Markets: ``on-demand``, ``spot``.
    beyond
        How many instances all these pools have together.
    """

    instance_type: str = "*"
    zone: str = "*"
    market: str = "*"
    beyond: int = 0

    def covers(self, instance_type: str, zone: str, market: str) -> bool:
        """Return whether a pool is one of these."""
        return (
            fnmatchcase(instance_type, self.instance_type)
            and fnmatchcase(zone, self.zone)
            and self.market in ("*", market)
        )


#: What there is no capacity for now.
SHORTAGES: list[Shortage] = []


def room(backend: Any, instance_type: str, zone: str, market: str) -> int | None:
    """Return how many more instances a pool has; None where there is no end to them."""
    rooms = [
        shortage.beyond - (_running(backend, shortage) if shortage.beyond else 0)
        for shortage in SHORTAGES
        if shortage.covers(instance_type, zone, market)
    ]
    return max(0, min(rooms)) if rooms else None


def check_capacity(backend: Any, instance_type: str, zone: str, market: str, count: int) -> None:
    """Refuse a launch for which a pool has no room."""
    from moto.ec2.exceptions import EC2ClientError

    left = room(backend, instance_type, zone, market)
    if left is not None and left < count:
        text = _NO_SPOT if market == "spot" else _on_demand_text(backend, instance_type, zone)
        raise EC2ClientError("InsufficientInstanceCapacity", text)


#: As a scaling activity quotes it: https://github.com/cortexlabs/cortex/issues/1258
_NO_SPOT = "There is no Spot capacity available that matches your request."


def _on_demand_text(backend: Any, instance_type: str, zone: str) -> str:
    # As RunInstances says it: https://github.com/ray-project/ray/issues/48845, with the zones that
    # still have capacity.
    zones = [
        one.name
        for one in backend.describe_availability_zones()
        if instance_type in offered(backend.region_name, one.name)
    ]
    others = [
        one for one in zones if one != zone and room(backend, instance_type, one, "on-demand") != 0
    ]
    text = (
        f"We currently do not have sufficient {instance_type} capacity in the Availability Zone "
        f"you requested ({zone}). "
        "Our system will be working on provisioning additional capacity."
    )
    if others:
        text += (
            f" You can currently get {instance_type} capacity by not specifying an Availability "
            "Zone in your request "
            f"or choosing {', '.join(others)}."
        )
    return text


def _running(backend: Any, shortage: Shortage) -> int:
    return sum(
        1
        for instance in backend.all_instances()
        if instance.state in ("pending", "running")
        and shortage.covers(
            instance.instance_type, instance.placement.zone or "", instance.lifecycle or "on-demand"
        )
    )


@lru_cache
def offered(region: str, zone: str) -> frozenset[str]:
    """Return the instance types that a zone has at all."""
    from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS

    offerings = INSTANCE_TYPE_OFFERINGS["availability-zone"].get(region, [])
    return frozenset(
        offering["InstanceType"] for offering in offerings if offering["Location"] == zone
    )
