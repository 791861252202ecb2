"""Format times for documents and output."""

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
