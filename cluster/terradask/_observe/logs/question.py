"""What is asked of a cluster's logs: which hosts, when, which lines. Pure."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from terradask._observe.logs.lines import Level, LogLine, check_level, is_at_least
from terradask._observe.logs.times import Moment, moment_of
from terradask.errors import InvalidInput
from terradask_host.log_streams import LogStream
from terradask_modules.names import SCHEDULER_GROUP

#: Stands for the hosts of all workers, of named groups, too.
WORKERS = "workers"

#: Stands for every run of the cluster.
ALL_RUNS = "all"

_SPOT = "-spot"

#: So many names FilterLogEvents takes.
MOST_NAMES = 100

#: So many hosts an error names.
_SHOWN_HOSTS = 20


@dataclass(frozen=True)
class Question:
    """What is asked of a cluster's logs."""

    #: ``scheduler``, ``workers`` (all of them), a group, an instance id or how one ends; empty for
    #: all hosts.
    hosts: tuple[str, ...] = ()
    since: datetime.datetime | None = None
    until: datetime.datetime | None = None
    #: What a line's text matches anywhere.
    pattern: re.Pattern[str] | None = None
    #: The least serious level.
    level: Level | None = None
    #: So many lines, the newest; None for all.
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
    ) -> Question:
        """Return a question from what a user gives. Raises `InvalidInput`."""
        now = now or datetime.datetime.now(datetime.UTC)
        if tail is not None and (isinstance(tail, bool) or tail < 1):
            raise InvalidInput("tail is no number of lines.", given=tail, allowed="1 or more")
        return cls(
            tuple(hosts),
            None if since is None else moment_of(since, now, "since"),
            None if until is None else moment_of(until, now, "until"),
            None if pattern is None else _compiled(pattern),
            None if level is None else check_level(level),
            tail,
            run,
        )

    def wants(self, line: LogLine) -> bool:
        """Return whether a line of a wanted host is one that is asked for."""
        return (self.level is None or is_at_least(line.level, self.level)) and (
            self.pattern is None or self.pattern.search(line.text) is not None
        )

    @property
    def names_hosts(self) -> bool:
        """Whether some of the words can be told only from the hosts that there are."""
        return not set(self.hosts) <= {SCHEDULER_GROUP, WORKERS}


@dataclass(frozen=True)
class Streams:
    """Which streams of a run are read, as FilterLogEvents can be asked for them."""

    #: What the streams' names begin with; None if they are named.
    prefix: str | None
    names: tuple[str, ...]
    #: Whether one of them is a wanted host's.
    wanted: Callable[[LogStream], bool]


def choose_streams(
    cluster: str, run_id: str | None, words: Sequence[str], known: Collection[LogStream]
) -> Streams:
    """Return which streams to read for the words of a question; `known` are those of the run, which
    only `Question.names_hosts` needs. Raises `InvalidInput` for a word that fits no host.
    """
    whole = f"{cluster}/" if run_id is None else f"{cluster}/{run_id}/"
    if not words:
        return Streams(whole, (), lambda stream: True)
    groups, hosts = _fitting(words, known)
    if not groups:
        names = tuple(sorted(one.name for one in known if one.instance_id in hosts))
        if len(names) <= MOST_NAMES:
            return Streams(None, names, lambda stream: True)
    if words == (SCHEDULER_GROUP,) and run_id is not None:
        whole += f"{SCHEDULER_GROUP}/"
    has_workers = WORKERS in groups

    def wanted(stream: LogStream) -> bool:
        is_worker = stream.group != SCHEDULER_GROUP
        return (
            stream.group.removesuffix(_SPOT) in groups
            or stream.instance_id in hosts
            or (has_workers and is_worker)
        )

    return Streams(whole, (), wanted)


def _fitting(words: Sequence[str], known: Collection[LogStream]) -> tuple[set[str], set[str]]:
    """Return the groups and the instance ids that the words name."""
    there = {stream.group.removesuffix(_SPOT) for stream in known}
    groups, hosts = set[str](), set[str]()
    for word in words:
        # As labels of narrow terminals show hosts, too: `workers/…89abcdef`.
        ending = word.rpartition("/")[2].lstrip("…")
        if word in (SCHEDULER_GROUP, WORKERS) or word in there:
            groups.add(word)
        elif fits := {one.instance_id for one in known if ending and _is(one, ending)}:
            hosts |= fits
        else:
            raise InvalidInput(
                "The cluster's logs have no such host or group.",
                given=word,
                allowed=_there(known),
                advice="name a group, an instance id, or how one ends",
            )
    return groups, hosts


def _is(stream: LogStream, ending: str) -> bool:
    return stream.instance_id.endswith(ending) and len(ending) >= min(4, len(stream.instance_id))


def _there(known: Collection[LogStream]) -> str:
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
            "The filter is no regular expression.",
            given=pattern,
            allowed="one of Python's, such as Error|Warning",
            advice=f"{error}; put \\ before characters that stand for themselves",
        ) from error
