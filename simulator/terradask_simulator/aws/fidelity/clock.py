"""AWS's clock, which a switch sets forward, so that hours of instances pass at once. Instances that
ended an hour ago are no longer listed, as on AWS.

AWS (documented, ec2-lists-ended): EC2 lists an ended instance for usually less than an hour.
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstances.html

moto reads the time by one function, which its modules import by name, and lists ended instances
forever.
"""

from __future__ import annotations

import datetime
import sys
from typing import Any

from terradask_simulator.aws.fidelity.patching import around

__all__ = ["ahead_seconds", "install", "is_forgotten", "now", "parse_time", "set_ahead"]

#: How long an instance that has ended is listed.
LISTED = datetime.timedelta(hours=1)


class _State:
    ahead = datetime.timedelta()


def ahead_seconds() -> float:
    """Return how far AWS's clock is ahead of this machine's."""
    return _State.ahead.total_seconds()


def set_ahead(seconds: float) -> float:
    """Set how far AWS's clock is ahead; return the previous value."""
    before, _State.ahead = ahead_seconds(), datetime.timedelta(seconds=seconds)
    return before


def now() -> datetime.datetime:
    """Return the time by AWS's clock, in UTC."""
    return datetime.datetime.now(datetime.UTC) + _State.ahead


def parse_time(value: Any) -> datetime.datetime | None:
    """Return a request's time, which is in UTC unless it has an offset; None for nothing."""
    if not value:
        return None
    moment = datetime.datetime.fromisoformat(str(value))
    return moment.astimezone(datetime.UTC) if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)


def is_forgotten(instance: Any) -> bool:
    """Return whether an instance ended so long ago that EC2 no longer lists it."""
    ended = getattr(instance, "_embedded_terminated_at", None)
    return ended is not None and now() - ended > LISTED


def install() -> None:
    """Make moto read this clock."""
    from moto.core import utils

    ask = utils.utcnow

    @around(utils, "utcnow")
    def utcnow(ask: Any) -> Any:
        return ask() + _State.ahead

    for name, module in list(sys.modules.items()):
        if name.startswith("moto.") and getattr(module, "utcnow", None) is ask:
            module.utcnow = utils.utcnow  # type: ignore[attr-defined]
