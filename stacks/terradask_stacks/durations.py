"""Read durations as Dask does."""

from __future__ import annotations

import contextlib
import datetime
import math
from typing import Any


def seconds_of(value: Any) -> float | None:
    """Return a duration in seconds: ``"20 minutes"``, a number or a `timedelta`; None if it is
    none, or not more than 0.
    """
    from dask.utils import parse_timedelta

    seconds = math.nan
    if isinstance(value, str | int | float | datetime.timedelta) and not isinstance(value, bool):
        # Also of an empty text, a text of blanks, and a number beyond all bounds.
        with contextlib.suppress(LookupError, ValueError, OverflowError):
            seconds = float(parse_timedelta(value))
    return seconds if math.isfinite(seconds) and seconds > 0 else None
