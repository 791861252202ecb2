"""Parse points in time and queries for a cluster's logs, and choose their streams. No calls."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from terradask._observe.logs.lines import Level, LogLine, check_level, is_at_least
from terradask.errors import InvalidInput
from terradask_host.log_streams import NO_RUN, LogStream
from terradask_modules.names import SCHEDULER_GROUP

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


def parse_period(
    since: Moment | None, until: Moment | None = None, now: datetime.datetime | None = None
) -> tuple[datetime.datetime | None, datetime.datetime | None]:
    """Return the points in time of the options ``since`` and ``until``. Raises `InvalidInput`."""
    now = now or datetime.datetime.now(datetime.UTC)
    first = None if since is None else parse_moment(since, now, "since")
    return first, None if until is None else parse_moment(until, now, "until")


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


# ---- queries for logs ----------------------------------------------------------------------------


#: Stands for the hosts of all workers, of named groups, too.
WORKERS = "workers"

#: Stands for every run of the cluster.
ALL_RUNS = "all"

_SPOT = "-spot"

#: Most names in a call of FilterLogEvents.
MOST_NAMES = 100

#: Most hosts in an error.
_SHOWN_HOSTS = 20


@dataclass(frozen=True)
class LogQuery:
    """A query for a cluster's logs."""

    #: ``scheduler``, ``workers`` (all of them), a group, an instance id or how one ends; empty for
    #: all hosts.
    hosts: tuple[str, ...] = ()
    since: datetime.datetime | None = None
    until: datetime.datetime | None = None
    #: Matches anywhere in a line's text.
    pattern: re.Pattern[str] | None = None
    #: The least serious level.
    level: Level | None = None
    #: Most lines, the newest; None for all.
    tail: int | None = None
    #: Id of the run, or ``all``; None for the last one.
    run: str | None = None

    @classmethod
    def of(
        cls,
        hosts: Iterable[str] = (),
        *,
        since: Moment | None = None,
        until: Moment | None = None,
        pattern: str | None = None,
        level: str | None = None,
        tail: int | None = None,
        run: str | None = None,
        now: datetime.datetime | None = None,
    ) -> LogQuery:
        """Parse a user's options. Raises `InvalidInput`."""
        if tail is not None and (isinstance(tail, bool) or tail < 1):
            raise InvalidInput("tail is not a number of lines.", given=tail, allowed="1 or more")
        return cls(
            tuple(hosts),
            *parse_period(since, until, now),
            None if pattern is None else _compiled(pattern),
            None if level is None else check_level(level),
            tail,
            run,
        )

    def wants(self, line: LogLine) -> bool:
        """Return whether a line of a wanted host matches the query."""
        return (self.level is None or is_at_least(line.level, self.level)) and (
            self.pattern is None or self.pattern.search(line.text) is not None
        )

    @property
    def names_hosts(self) -> bool:
        """Whether the query contains names that only the list of hosts can resolve."""
        return not set(self.hosts) <= {SCHEDULER_GROUP, WORKERS}


@dataclass(frozen=True)
class Streams:
    """The streams of a run to read, in the form of FilterLogEvents' arguments."""

    #: Prefix of the streams' names; None if they are listed in `names`.
    prefix: str | None
    names: tuple[str, ...]
    #: Whether a stream belongs to a wanted host.
    wanted: Callable[[LogStream], bool]


def choose_streams(
    cluster: str, run_id: str | None, words: Sequence[str], known: Collection[LogStream]
) -> Streams:
    """Return the streams to read for the host words of a query; `known` are the run's streams,
    which only `LogQuery.names_hosts` needs. Raises `InvalidInput` for a word without a match.
    """
    prefix = f"{cluster}/" if run_id is None else f"{cluster}/{run_id}/"
    if not words:
        return Streams(prefix, (), lambda stream: True)
    groups, hosts = _match_words(words, known)
    if not groups:
        names = tuple(sorted(one.name for one in known if one.instance_id in hosts))
        if len(names) <= MOST_NAMES:
            return Streams(None, names, lambda stream: True)
    if words == (SCHEDULER_GROUP,) and run_id is not None:
        prefix += f"{SCHEDULER_GROUP}/"
    has_workers = WORKERS in groups

    def wanted(stream: LogStream) -> bool:
        is_worker = stream.group != SCHEDULER_GROUP
        return (
            stream.group.removesuffix(_SPOT) in groups
            or stream.instance_id in hosts
            or (has_workers and is_worker)
        )

    return Streams(prefix, (), wanted)


def _match_words(words: Sequence[str], known: Collection[LogStream]) -> tuple[set[str], set[str]]:
    """Return the groups and the instance ids that the words match."""
    known_groups = {stream.group.removesuffix(_SPOT) for stream in known}
    groups, hosts = set[str](), set[str]()
    for word in words:
        # Including the labels of narrow terminals: `workers/…89abcdef`.
        ending = word.rpartition("/")[2].lstrip("…")
        if word in (SCHEDULER_GROUP, WORKERS) or word in known_groups:
            groups.add(word)
        elif matches := {one.instance_id for one in known if ending and _ends_with(one, ending)}:
            hosts |= matches
        else:
            raise InvalidInput(
                "The cluster's logs have no such host or group.",
                given=word,
                allowed=_known_names(known),
                advice="name a group, an instance id, or the end of one",
            )
    return groups, hosts


def _ends_with(stream: LogStream, ending: str) -> bool:
    return stream.instance_id.endswith(ending) and len(ending) >= min(4, len(stream.instance_id))


def _known_names(known: Collection[LogStream]) -> str:
    groups = sorted({stream.group.removesuffix(_SPOT) for stream in known} - {SCHEDULER_GROUP})
    hosts = sorted({stream.instance_id for stream in known})
    more = f", … ({len(hosts)} hosts)" if len(hosts) > _SHOWN_HOSTS else ""
    named = dict.fromkeys([SCHEDULER_GROUP, WORKERS, *groups, *hosts[:_SHOWN_HOSTS]])
    return ", ".join(named) + more


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise InvalidInput(
            "The filter is not a valid regular expression.",
            given=pattern,
            allowed="Python's syntax, such as Error|Warning",
            advice=f"{error}; put \\ before literal special characters",
        ) from error
