"""Read the lines of one cluster's logs from its streams in CloudWatch, and follow new ones."""

from __future__ import annotations

import datetime
import heapq
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from terradask._aws.answers import unless
from terradask._aws.rate_limit import RateLimiter
from terradask._aws.session import Aws
from terradask._aws.translation import is_transient
from terradask._common.batches import batches
from terradask._observe.logs.lines import LineLevels, LogLine
from terradask._observe.logs.query import (
    ALL_RUNS,
    MOST_NAMES,
    LogQuery,
    Streams,
    choose_streams,
    from_milliseconds,
    milliseconds,
    run_start,
)
from terradask._observe.record import ClusterRecord
from terradask.errors import (
    AccessDenied,
    ClusterNotFound,
    DocumentFormat,
    EndpointUnreachable,
    InvalidInput,
)
from terradask_host.log_streams import NO_RUN, RUN_ID, LogStream, parse_stream
from terradask_modules.names import log_group_name

#: AWS (documented): CloudWatch DescribeLogStreams returns up to 50 items a page, FilterLogEvents
#: 10,000. https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_DescribeLogStreams.html,
#: https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_FilterLogEvents.html
_STREAMS_PAGE, EVENTS_PAGE = 50, 10_000

#: Pauses between calls.
#: AWS (documented, logs-rate): CloudWatch Logs allows 25 DescribeLogStreams and 5 FilterLogEvents a
#: second by account and region. https://repost.aws/knowledge-center/cloudwatch-logs-throttling
_STREAMS_SECONDS, _EVENTS_SECONDS = 0.1, 0.5

#: Time of retries while AWS throttles, beyond boto3's own retries.
_BUSY_SECONDS = 60.0


class LogGroup:
    """Read the workspace's log group within AWS's limits. AWS (logs-rate)

    Permissions needed: ``logs:DescribeLogStreams`` and ``logs:FilterLogEvents`` on it.
    """

    def __init__(
        self,
        aws: Aws,
        workspace: str,
        *,
        stream_limiter: RateLimiter | None = None,
        event_limiter: RateLimiter | None = None,
        busy_seconds: float = _BUSY_SECONDS,
    ) -> None:
        self.name = log_group_name(workspace)
        self._aws = aws
        self._busy_seconds = busy_seconds
        self._stream_limiter = stream_limiter or RateLimiter(_STREAMS_SECONDS)
        self._event_limiter = event_limiter or RateLimiter(_EVENTS_SECONDS)

    def streams(self, prefix: str, *, newest_first: bool = False) -> Iterator[LogStream]:
        """Return hosts' streams with a prefix, by name, so with the newest run last, or first."""
        return _hosts(self._described(logStreamNamePrefix=prefix, descending=newest_first))

    def recent(self, *, most: int) -> Iterator[LogStream]:
        """Return at most `most` hosts' streams, the newest events' first; AWS's order may lag."""
        return _hosts(islice(self._described(orderBy="LastEventTime", descending=True), most))

    def runless(self, cluster: str, run_start_ms: int) -> list[LogStream]:
        """Return streams, created since a run's start, of a cluster's hosts without a known run."""
        every = [*self._described(logStreamNamePrefix=f"{cluster}/-/")]
        return list(_hosts(one for one in every if one["creationTime"] >= run_start_ms))

    def _described(self, **query: Any) -> Iterator[dict[str, Any]]:
        query = {"limit": _STREAMS_PAGE, **query}
        for page in self._pages(self._stream_limiter, "describe_log_streams", query):
            yield from page.get("logStreams", ())

    def events(
        self, streams: Streams, start_ms: int, end_ms: int | None = None, **more: Any
    ) -> Iterator[dict[str, Any]]:
        """Yield events of wanted hosts, oldest first; with ``startFromHead=False`` newest first."""
        if streams.prefix is None and not streams.names:
            return
        which: dict[str, Any] = (
            {"logStreamNames": list(streams.names)}
            if streams.prefix is None
            else {"logStreamNamePrefix": streams.prefix}
        )
        query = {**which, "startTime": start_ms, "limit": EVENTS_PAGE, **more}
        if end_ms is not None:
            query["endTime"] = end_ms
        wanted: dict[str, bool] = {}
        for page in self._pages(self._event_limiter, "filter_log_events", query):
            for event in page.get("events", ()):
                name = event["logStreamName"]
                if name not in wanted:
                    stream = parse_stream(name)
                    # The log group may contain streams of any name.
                    wanted[name] = stream is not None and streams.wanted(stream)
                if wanted[name]:
                    yield event

    @property
    def reads_from_tail(self) -> bool:
        """Whether this version of boto3 can ask for the newest events first."""
        model = self._aws.client("logs").meta.service_model.operation_model("FilterLogEvents")
        return "startFromHead" in model.input_shape.members

    def _pages(
        self, limiter: RateLimiter, method: str, query: dict[str, Any]
    ) -> Iterator[dict[str, Any]]:
        """Yield the pages of an answer, and call again while AWS throttles; an unknown group or
        stream has none.
        """
        deadline = time.monotonic() + self._busy_seconds
        while True:
            page: dict[str, Any] = {}
            try:
                with limiter.slot(), unless("ResourceNotFoundException"):
                    call = getattr(self._aws.client("logs"), method)
                    page = call(logGroupName=self.name, **query)
            except AccessDenied as error:
                error.allowed = "the rights of `terradask iam user` or `terradask iam ongoing`"
                error.advice = (
                    f"ask an administrator to attach these policies, which allow {error.action}, "
                    "or use another profile (AWS_PROFILE)"
                )
                raise
            except Exception as error:
                if not is_transient(error):
                    raise
                if time.monotonic() > deadline:
                    raise EndpointUnreachable(
                        "CloudWatch has answered no call that reads logs for a minute",
                        given=f"{self.name}: {error}",
                        allowed="5 calls of FilterLogEvents a second, of all callers in the "
                        "account and region",
                        advice="try again later, or read less: a host, --since, --tail",
                    ) from error
                continue
            yield page
            # A page may be empty although others follow.
            if not page.get("nextToken"):
                return
            query = {**query, "nextToken": page["nextToken"]}
            deadline = time.monotonic() + self._busy_seconds


def _hosts(described: Iterable[Mapping[str, Any]]) -> Iterator[LogStream]:
    for one in described:
        if (stream := parse_stream(one["logStreamName"])) is not None:
            yield stream


# ---- one cluster's logs --------------------------------------------------------------------------


#: Most streams that are read for the names in an error.
_MOST_STREAMS = 500

Event = dict[str, Any]


@dataclass(frozen=True)
class LogReader:
    """The logs of one cluster, whether or not it is deployed."""

    _group: LogGroup
    _cluster: str

    def last_run(self) -> str | None:
        """Return the id of the last run that has a stream; None if there is none."""
        for stream in self._group.streams(f"{self._cluster}/", newest_first=True):
            # Any host of the workspace can create streams, even of future runs.
            if run_start(stream.run_id) <= datetime.datetime.now(datetime.UTC):
                return stream.run_id
        return None

    def runs(self) -> list[str]:
        """Return the ids of runs with streams, newest first, from at most 500 streams."""
        streams = self._group.streams(f"{self._cluster}/", newest_first=True)
        some = (stream for _, stream in zip(range(_MOST_STREAMS), streams, strict=False))
        return list(dict.fromkeys(stream.run_id for stream in some))

    def hosts(self, run_id: str) -> list[LogStream]:
        """Return the streams of a run's hosts, or of all."""
        run = "" if run_id == ALL_RUNS else f"{run_id}/"
        return list(self._group.streams(f"{self._cluster}/{run}"))

    def not_found(self) -> ClusterNotFound:
        """Return the error for a cluster without logs, with the names of clusters with logs."""
        others = sorted({one.cluster for one in self._group.recent(most=_MOST_STREAMS)})
        return ClusterNotFound(
            f"There are no logs of a cluster {self._cluster!r} in this workspace.",
            cluster=self._cluster,
            given=self._cluster,
            allowed=(
                f"a cluster with logs: {', '.join(others)}" if others else "no cluster has any yet"
            ),
            advice=(
                "CloudWatch keeps logs for network.log_retention_days; `terradask list` shows the "
                "clusters that are deployed"
            ),
        )

    def check_run(self, run_id: str) -> None:
        """Check that a run has logs. Raises `InvalidInput` with the runs with logs."""
        is_name = run_id == NO_RUN or RUN_ID.fullmatch(run_id) is not None
        if not is_name or next(self._group.streams(f"{self._cluster}/{run_id}/"), None) is None:
            runs = self.runs()
            if not runs:
                raise self.not_found()
            raise InvalidInput(
                f"Cluster {self._cluster!r} has no logs of such a run.",
                given=run_id,
                allowed=", ".join([*runs, ALL_RUNS]),
                advice="`terradask status NAME --events` shows the events with their times",
            )

    def choose(self, query: LogQuery, run_id: str, *, is_last: bool) -> list[Streams]:
        """Return the streams to read. Raises `InvalidInput` for an unknown host or group."""
        known = self.hosts(run_id) if query.names_hosts else []
        runless: list[LogStream] = []
        if is_last and run_id not in (ALL_RUNS, NO_RUN):
            begin = milliseconds(run_start(run_id))
            runless = self._group.runless(self._cluster, begin)
        run = None if run_id == ALL_RUNS else run_id
        chosen = choose_streams(self._cluster, run, query.hosts, [*known, *runless])
        if chosen.prefix is None:
            return [chosen]
        names = sorted(one.name for one in runless if chosen.wanted(one))
        parts = batches(names, MOST_NAMES)
        return [chosen, *(Streams(None, tuple(part), chosen.wanted) for part in parts)]

    def lines(
        self, query: LogQuery, chosen: list[Streams], run_id: str
    ) -> Iterator[tuple[Event, LogLine]]:
        """Yield the requested lines, oldest first, with their events."""
        start_ms, end_ms = span(query, run_id)
        if query.tail is None:
            yield from self._with_levels(query, self.events(chosen, start_ms, end_ms))
            return
        # A line's level may depend on the previous line.
        if query.level is None and self._group.reads_from_tail:
            few = {} if query.pattern else {"limit": min(query.tail, EVENTS_PAGE)}
            newest = self.events(chosen, start_ms, end_ms, newest_first=True, **few)
            wanted = (event for event in newest if query.wants(read_line(event)))
            last = [event for _, event in zip(range(query.tail), wanted, strict=False)]
            yield from self._with_levels(query, reversed(last))
            return
        forward = self._with_levels(query, self.events(chosen, start_ms, end_ms))
        yield from deque(forward, query.tail)

    def events(
        self,
        chosen: list[Streams],
        start_ms: int,
        end_ms: int | None = None,
        *,
        newest_first: bool = False,
        **more: Any,
    ) -> Iterator[Event]:
        """Yield the events of wanted hosts between two times, by default oldest first."""
        if newest_first:
            more["startFromHead"] = False
        each = [self._group.events(one, start_ms, end_ms, **more) for one in chosen]
        return heapq.merge(*each, key=lambda one: int(one["timestamp"]), reverse=newest_first)

    def _with_levels(
        self, query: LogQuery, events: Iterable[Event]
    ) -> Iterator[tuple[Event, LogLine]]:
        levels = LineLevels()
        for event in events:
            line = line_with_level(event, levels)
            if query.wants(line):
                yield event, line


def read_line(event: Event) -> LogLine:
    """Return an event of a host's stream as a line, without its level."""
    _, run_id, group, host = event["logStreamName"].split("/")
    at = from_milliseconds(int(event["timestamp"]))
    return LogLine(at, host, group, None if run_id == NO_RUN else run_id, None, event["message"])


def line_with_level(event: Event, levels: LineLevels) -> LogLine:
    """Return a host's next event as a line with its level."""
    line = read_line(event)
    return replace(line, level=levels.level_of(line.host, line.text))


def span(query: LogQuery, run_id: str) -> tuple[int, int | None]:
    """Return the begin and end of the time to read, in CloudWatch's milliseconds."""
    first = run_start(None if run_id == ALL_RUNS else run_id)
    start = first if query.since is None else max(query.since, first)
    return milliseconds(start), None if query.until is None else milliseconds(query.until)


# ---- one run's lines, and new ones until its end -------------------------------------------------


def cluster_lines(record: ClusterRecord, query: LogQuery, *, follow: bool) -> Iterator[LogLine]:
    """Yield a cluster's lines, deployed or not; with `follow` new ones until the run's end."""
    if follow and (query.until is not None or query.run is not None):
        raise InvalidInput(
            "Only the last run's logs can be followed, and until its end.",
            given="until" if query.run is None else f"run {query.run}",
            allowed="neither until nor run",
        )
    reader = _reader(record)
    run_id = _requested_run(record, reader, query)
    if run_id is None:
        return
    is_last = query.run is None or query.run == reader.last_run()
    chosen = reader.choose(query, run_id, is_last=is_last)
    if follow:
        yield from Follower(reader, lambda: _is_over(record, run_id)).lines(query, chosen, run_id)
    else:
        yield from (line for _, line in reader.lines(query, chosen, run_id))


def hosts_with_logs(record: ClusterRecord, query: LogQuery) -> dict[str, str]:
    """Return the hosts with logs of the requested run: instance id -> group."""
    reader = _reader(record)
    run_id = _requested_run(record, reader, query)
    streams = [] if run_id is None else reader.hosts(run_id)
    return {stream.instance_id: stream.group for stream in streams}


def _reader(record: ClusterRecord) -> LogReader:
    return LogReader(LogGroup(record.aws, record.where.workspace), record.name)


def _requested_run(record: ClusterRecord, reader: LogReader, query: LogQuery) -> str | None:
    """Return the run to read; None for a deployed cluster without logs."""
    if query.run is None:
        # The last started one; if its document is invalid, the logs may contain the reason. Without
        # permission to read it, the logs name the run, too.
        with suppress(AccessDenied, DocumentFormat):
            run = record.run()
            if run is not None and RUN_ID.fullmatch(run.run_id):
                return run.run_id
    elif query.run != ALL_RUNS:
        reader.check_run(str(query.run))
        return query.run
    last = reader.last_run()
    if last is None and not record.exists:
        raise reader.not_found()
    return ALL_RUNS if last is not None and query.run == ALL_RUNS else last


def _is_over(record: ClusterRecord, run_id: str) -> bool:
    try:
        run = record.current_run()
    except ClusterNotFound:
        return True
    return run is None or run.run_id != run_id


# ---- new lines ----------------------------------------------------------------------------------

#: Intervals of polls for lines, and for the run's end.
_PAUSE_SECONDS, _RUN_POLL_SECONDS = 2.0, 10.0

#: Hosts ship their lines within seconds, and CloudWatch shows them some seconds later: each poll
#: reads the first time span again, and polling continues for the second after the run's end.
_LATE_SECONDS, _LAST_SECONDS = 30.0, 10.0


@dataclass(eq=False)
class Follower:
    """Yield lines until the run is over, each once."""

    reader: LogReader
    is_over: Callable[[], bool]
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    wall_clock: Callable[[], float] = time.time
    #: Event id -> its time, within the span that is read again.
    _seen: dict[str, int] = field(default_factory=dict, init=False)
    _newest_ms: int = field(default=0, init=False)
    _floor_ms: int = field(default=0, init=False)

    def lines(self, query: LogQuery, chosen: list[Streams], run_id: str) -> Iterator[LogLine]:
        """Yield existing lines, then new ones."""
        was_over = self.is_over()
        for event, line in self.reader.lines(query, chosen, run_id):
            if not self._seen and query.tail is not None:
                # `tail` has omitted older lines.
                self._floor_ms = int(event["timestamp"])
            self._note(event)
            yield line
        if was_over:
            return
        start_ms, _ = span(query, run_id)
        levels = LineLevels()
        poll_at, end_at = self.clock() + _RUN_POLL_SECONDS, float("inf")
        while True:
            is_last = self.clock() >= end_at
            yield from self._new(query, chosen, start_ms, levels)
            if is_last:
                return
            if end_at == float("inf") and self.clock() >= poll_at:
                poll_at = self.clock() + _RUN_POLL_SECONDS
                if self.is_over():
                    end_at = self.clock() + _LAST_SECONDS
            self.sleep(_PAUSE_SECONDS)

    def _new(
        self, query: LogQuery, chosen: list[Streams], start_ms: int, levels: LineLevels
    ) -> Iterator[LogLine]:
        # A host's clock may be ahead.
        until_ms = min(self._newest_ms, int(self.wall_clock() * 1000))
        since_ms = max(until_ms - int(_LATE_SECONDS * 1000), start_ms)
        self._seen = {name: at for name, at in self._seen.items() if at >= since_ms}
        for event in self.reader.events(chosen, since_ms):
            if event["eventId"] in self._seen or int(event["timestamp"]) < self._floor_ms:
                continue
            self._note(event)
            line = line_with_level(event, levels)
            if query.wants(line):
                yield line

    def _note(self, event: Event) -> None:
        at = int(event["timestamp"])
        self._seen[event["eventId"]] = at
        self._newest_ms = max(self._newest_ms, at)
