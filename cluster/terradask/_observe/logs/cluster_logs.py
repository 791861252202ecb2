"""Read the log lines of one cluster's run, and follow new ones until its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from terradask._observe.logs.cloudwatch import LogGroup
from terradask._observe.logs.lines import LineLevels, LogLine
from terradask._observe.logs.query import ALL_RUNS, LogQuery, Streams
from terradask._observe.logs.reader import Event, LogReader, line_with_level, span
from terradask._observe.record import ClusterRecord
from terradask.errors import ClusterNotFound, DocumentFormat, InvalidInput
from terradask_host.log_streams import RUN_ID


def cluster_lines(record: ClusterRecord, query: LogQuery, *, follow: bool) -> Iterator[LogLine]:
    """Yield the lines of a cluster, deployed or not, oldest first; with `follow` also new ones,
    until the run is over.
    """
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
    started = None if query.run is not None else _run_of_record(record)
    return started or _run_with_logs(record, reader, query)


def _run_of_record(record: ClusterRecord) -> str | None:
    """Return the last started run, even if it has ended; None if its document is missing or
    invalid: the logs may contain the reason.
    """
    try:
        run = record.run()
    except DocumentFormat:
        return None
    return run.run_id if run is not None and RUN_ID.fullmatch(run.run_id) else None


def _run_with_logs(record: ClusterRecord, reader: LogReader, query: LogQuery) -> str | None:
    if query.run not in (None, ALL_RUNS):
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
