"""Read a duration in words, for advice on a setting that is a number of seconds."""

from __future__ import annotations

import re

_LONG = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
_UNIT_SECONDS = {"": 1} | {
    written: seconds for unit, seconds in _LONG.items() for written in (unit, f"{unit}s", unit[0])
}
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*")


def seconds_of(text: str) -> float | None:
    """Return the seconds of a number and a unit, ``"20 minutes"`` or ``"2h"``; None if it has
    another form.
    """
    found = _DURATION.fullmatch(text.lower())
    seconds = None if found is None else _UNIT_SECONDS.get(found[2])
    return None if found is None or seconds is None else float(found[1]) * seconds
