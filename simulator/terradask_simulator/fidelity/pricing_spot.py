"""Spot prices that fit the price list.

moto answers with one price, a thousandth of a cent, of the year 2006, in every zone that is asked for or not.
"""

from __future__ import annotations

import datetime
from typing import Any

__all__ = ["install"]

#: What AWS calls Linux, in a VPC and in general. moto's answer has the first one alone.
_LINUX = ("Linux/UNIX (Amazon VPC)", "Linux/UNIX")


def install() -> None:
    """Replace moto's answer."""
    from moto.core.responses import ActionResult
    from moto.ec2.responses.spot_instances import SpotInstances

    def describe_spot_price_history(response: Any) -> Any:
        offered = response.ec2_backend.describe_spot_price_history(
            response._get_param("InstanceTypes", []), response._filters_from_querystring()
        )
        zone = response._get_param("AvailabilityZone")
        described = response._get_param("ProductDescriptions", []) or _LINUX
        return ActionResult({"SpotPriceHistory": _history(offered, zone, described)})

    SpotInstances.describe_spot_price_history = describe_spot_price_history


def _history(offered: list[dict[str, Any]], zone: str | None, described: Any) -> list[dict[str, Any]]:
    from .pricing_list import spot_price

    # AWS changes a spot price now and then, not at each question.
    changed = datetime.datetime.now(datetime.UTC).replace(minute=0, second=0, microsecond=0)
    return [
        {
            "InstanceType": offer["InstanceType"],
            "ProductDescription": description,
            "SpotPrice": f"{price:f}",
            "AvailabilityZone": offer["Location"],
            "Timestamp": changed,
        }
        for offer in offered
        if (price := spot_price(offer["InstanceType"])) is not None and zone in (None, offer["Location"])
        for description in _LINUX
        if description in described
    ]
