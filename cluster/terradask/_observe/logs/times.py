"""Parse points in time, and convert them for log streams and CloudWatch. No calls."""

from __future__ import annotations

import datetime
import re

from terradask.errors import InvalidInput
from terradask_host.log_streams import NO_RUN

#: A point in time, how long ago it was, or either as text.
Moment = datetime.datetime | datetime.timedelta | str

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO = re.compile(r"(?:\d+[smhdw])+", re.ASCII)
_PART = re.compile(r"(\d+)([smhdw])", re.ASCII)

#: Hosts' own clocks may differ from the clock of the client that named the run.
_BEFORE_START = datetime.timedelta(minutes=10)
#: No run is older. CloudWatch can read newest events first only for start times after it.
_FIRST = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)


def parse_moment(given: Moment, now: datetime.datetime, option: str) -> datetime.datetime:
    """Return a point in time, in UTC. Raises `InvalidInput` with the option's name."""
    if isinstance(given, datetime.timedelta):
        return now - given
    if isinstance(given, str):
        text = given.strip()
        try:
            if _AGO.fullmatch(text):
                return now - sum(map(_span, _PART.findall(text)), datetime.timedelta())
            given = datetime.datetime.fromisoformat(text)
        except (ValueError, OverflowError) as error:
            raise InvalidInput(
                f"{option} is not a time.",
                given=text,
                allowed=(
                    "how long ago (10m, 2h, 1d12h), or a time in UTC (2026-11-24, "
                    "2026-11-24T08:00, 2026-11-24T09:00+01:00)"
                ),
            ) from error
    has_zone = given.tzinfo is not None
    return given.astimezone(datetime.UTC) if has_zone else given.replace(tzinfo=datetime.UTC)


def _span(part: tuple[str, str]) -> datetime.timedelta:
    number, unit = part
    return datetime.timedelta(**{_UNITS[unit]: int(number)})


def run_start(run_id: str | None) -> datetime.datetime:
    """Return the earliest time of lines of a run, or of any run."""
    if run_id is None or run_id == NO_RUN:
        return _FIRST
    try:
        start = datetime.datetime.strptime(run_id[:16], "%Y%m%dT%H%M%SZ")
    except ValueError:
        return _FIRST
    return max(start.replace(tzinfo=datetime.UTC) - _BEFORE_START, _FIRST)


def milliseconds(at: datetime.datetime) -> int:
    """Return a time in CloudWatch's milliseconds."""
    return max(int(at.timestamp() * 1000), 0)


def from_milliseconds(at: int) -> datetime.datetime:
    """Return the time of CloudWatch's milliseconds, limited to the last time of the calendar."""
    try:
        return datetime.datetime.fromtimestamp(at / 1000, datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return datetime.datetime.max.replace(tzinfo=datetime.UTC)
