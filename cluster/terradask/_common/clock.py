"""Format times and durations for documents and output."""

from __future__ import annotations

import datetime


def utc_text(at: datetime.datetime | None = None) -> str:
    """Return a time in UTC, in whole seconds, with ``Z``; by default now."""
    moment = (at or datetime.datetime.now(datetime.UTC)).astimezone(datetime.UTC)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def epoch_text(seconds: float) -> str:
    """Return seconds since 1970 in the form of `utc_text`."""
    return utc_text(datetime.datetime.fromtimestamp(seconds, datetime.UTC))


def is_younger(at: datetime.datetime, max_age: datetime.timedelta, now: datetime.datetime) -> bool:
    """Return whether a time is within an age; a future time, from a wrong clock, is not."""
    return datetime.timedelta() <= now - at < max_age


def duration(seconds: float) -> str:
    """Return a duration in one unit, such as ``3 min``."""
    whole = max(0, int(seconds))
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if whole >= 2 * length:
            return f"{whole // length} {unit}"
    return f"{whole} s"


def age_text(seconds: float, *, tenths: bool = False) -> str:
    """Return a duration in two units, ``12 min 03 s``, below a minute perhaps with tenths."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if tenths else f"{whole} s"
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {whole % 60:02} s"
