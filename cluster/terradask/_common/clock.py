"""Times as documents and output carry them."""

from __future__ import annotations

import datetime


def utc_text(at: datetime.datetime | None = None) -> str:
    """Return a time in UTC, in whole seconds, with ``Z``; by default now."""
    moment = (at or datetime.datetime.now(datetime.UTC)).astimezone(datetime.UTC)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
