"""Spot prices that fit the price list and can be changed by a switch.

moto returns one price, a thousandth of a cent, of the year 2006, for every zone, requested or not.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from terradask_simulator.aws.fidelity.clock import parse_time
from terradask_simulator.aws.fidelity.patching import add
from terradask_simulator.aws.fidelity.pricing_list import spot_price

__all__ = ["CHANGES", "PriceChange", "current_price", "install"]

#: AWS's names of Linux, in a VPC and in general. moto's response has only the first.
_LINUX = ("Linux/UNIX (Amazon VPC)", "Linux/UNIX")


@dataclass(frozen=True)
class PriceChange:
    """An hourly price that was set, in one zone or, with ``*``, in all."""

    instance_type: str
    zone: str
    usd: Decimal
    at: datetime.datetime

    def covers(self, instance_type: str, zone: str) -> bool:
        """Return whether the price applies to a pool."""
        return self.instance_type == instance_type and self.zone in ("*", zone)


#: Prices that were set, oldest first.
CHANGES: list[PriceChange] = []


def current_price(instance_type: str, zone: str) -> Decimal | None:
    """Return the hourly spot price of Linux in a zone in US dollars; None for an unknown type."""
    changed = [change.usd for change in CHANGES if change.covers(instance_type, zone)]
    return changed[-1] if changed else spot_price(instance_type)


def install() -> None:
    """Replace moto's response."""
    from moto.ec2.responses.spot_instances import SpotInstances

    def describe_spot_price_history(response: Any) -> Any:
        offered = response.ec2_backend.describe_spot_price_history(
            response._get_param("InstanceTypes", []), response._filters_from_querystring()
        )
        zone = response._get_param("AvailabilityZone")
        described = response._get_param("ProductDescriptions", []) or _LINUX
        start, end = (parse_time(response._get_param(name)) for name in ("StartTime", "EndTime"))
        rows = [
            {
                "InstanceType": offer["InstanceType"],
                "ProductDescription": description,
                "SpotPrice": f"{usd:f}",
                "AvailabilityZone": offer["Location"],
                "Timestamp": at,
            }
            for offer in offered
            if zone in (None, offer["Location"])
            for at, usd in _between(_history(offer["InstanceType"], offer["Location"]), start, end)
            for description in _LINUX
            if description in described
        ]
        return {"SpotPriceHistory": rows}

    add(SpotInstances, describe_spot_price_history)


def _history(instance_type: str, zone: str) -> list[tuple[datetime.datetime, Decimal]]:
    """Return a pool's prices with their start times, newest first."""
    first = spot_price(instance_type)
    if first is None:
        return []
    changed = [(change.at, change.usd) for change in CHANGES if change.covers(instance_type, zone)]
    # AWS changes a spot price now and then, not at each request.
    now = datetime.datetime.now(datetime.UTC).replace(minute=0, second=0, microsecond=0)
    since = min(now, changed[0][0] - datetime.timedelta(hours=1)) if changed else now
    return [*reversed(changed), (since, first)]


def _between(
    history: list[tuple[datetime.datetime, Decimal]],
    start: datetime.datetime | None,
    end: datetime.datetime | None,
) -> list[tuple[datetime.datetime, Decimal]]:
    """Return the prices that applied at a time or began later, as AWS does: a request about now
    returns the current price.
    """
    kept: list[tuple[datetime.datetime, Decimal]] = []
    for at, usd in history:
        if end is not None and at > end:
            continue
        kept.append((at, usd))
        if start is not None and at <= start:
            break
    return kept
