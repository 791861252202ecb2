"""Capacity reservations of EC2, as settings name them."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from terradask_modules.markets import SpotPolicy
from terradask_modules.reservations import GROUP_ARN, NONE, OPEN, RESERVATION_ID
from terradask_stacks.validators.refusal import matching, refuse

_ALLOWED = (
    "cr- and 8 or 17 hexadecimal digits; the ARN of a resource group, "
    'arn:aws:resource-groups:REGION:ACCOUNT:group/NAME; "open" or "none"'
)
_named = matching(
    rf"{RESERVATION_ID}|{GROUP_ARN}|{OPEN}|{NONE}", "a capacity reservation", _ALLOWED
)


def _reservation(value: str) -> str:
    arn = re.fullmatch(rf"arn:aws[a-z-]*:ec2:.*:capacity-reservation/({RESERVATION_ID})", value)
    if arn is not None:
        raise refuse(
            "this is the ARN of a capacity reservation, which is named by its id",
            allowed=_ALLOWED,
            advice=f"write {arn[1]}",
        )
    return _named(value)


Reservation = Annotated[str, AfterValidator(_reservation)]


def spot_refusal(setting: str, reservation: str | None, policy: SpotPolicy) -> None:
    """Refuse Spot instances from a capacity reservation. Raises pydantic's error.

    AWS (documented): Auto Scaling launches On-Demand Instances into capacity reservations.
    https://docs.aws.amazon.com/autoscaling/ec2/userguide/use-ec2-capacity-reservations.html
    """
    if reservation in (None, NONE) or policy == "on-demand":
        return
    error: PydanticCustomError = refuse(
        f"{setting} is {reservation}, and spot_policy is {policy}",
        allowed='spot_policy = "on-demand": AWS launches no Spot instance into a reservation',
        advice=f'set spot_policy = "on-demand" for these workers, or leave {setting} out',
    )
    raise error
