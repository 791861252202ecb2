"""The logs of one cluster: which run is meant, its lines, and new ones as they come."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from terradask._observe.logs.cloudwatch import LogGroup
from terradask._observe.logs.lines import Leveller, LogLine
from terradask._observe.logs.question import ALL_RUNS, Question, Streams
from terradask._observe.logs.reader import Event, LogReader, levelled_line, span
from terradask._observe.record import ClusterRecord
from terradask.errors import ClusterNotFound, DocumentFormat, InvalidInput
from terradask_host.log_streams import RUN_ID


def cluster_lines(record: ClusterRecord, question: Question, *, follow: bool) -> Iterator[LogLine]:
    """Yield a cluster's lines, oldest first, whether or not it is deployed; with `follow` also
    those to come, until the run is over.
    """
    if follow and (question.until is not None or question.run is not None):
        raise InvalidInput(
            "Only the last run's logs can be followed, and until its end.",
            given="until" if question.run is None else f"run {question.run}",
            allowed="neither until nor run",
        )
    reader = _reader(record)
    run_id = _asked_run(record, reader, question)
    if run_id is None:
        return
    is_last = question.run is None or question.run == reader.last_run()
    chosen = reader.choose(question, run_id, is_last=is_last)
    if follow:
        yield from Follower(reader, lambda: _is_over(record, run_id)).lines(
            question, chosen, run_id
        )
    else:
        yield from (line for _, line in reader.lines(question, chosen, run_id))


def hosts_with_logs(record: ClusterRecord, question: Question) -> dict[str, str]:
    """Return the hosts with logs of the run that is asked for: instance id -> group."""
    reader = _reader(record)
    run_id = _asked_run(record, reader, question)
    streams = [] if run_id is None else reader.hosts(run_id)
    return {stream.instance_id: stream.group for stream in streams}


def _reader(record: ClusterRecord) -> LogReader:
    return LogReader(LogGroup(record.aws, record.where.workspace), record.name)


def _asked_run(record: ClusterRecord, reader: LogReader, question: Question) -> str | None:
    """Return the run to read; None for a deployed cluster without logs."""
    started = None if question.run is not None else _run_of_record(record)
    return started or _run_with_logs(record, reader, question)


def _run_of_record(record: ClusterRecord) -> str | None:
    """Return the run that was started last, also if it ended by itself; None if its document is
    gone, or isn't as terradask writes it: the logs may say why.
    """
    try:
        run = record.run()
    except DocumentFormat:
        return None
    return run.run_id if run is not None and RUN_ID.fullmatch(run.run_id) else None


def _run_with_logs(record: ClusterRecord, reader: LogReader, question: Question) -> str | None:
    if question.run not in (None, ALL_RUNS):
        reader.check_run(str(question.run))
        return question.run
    last = reader.last_run()
    if last is None and not record.exists:
        raise reader.not_found()
    return ALL_RUNS if last is not None and question.run == ALL_RUNS else last


def _is_over(record: ClusterRecord, run_id: str) -> bool:
    try:
        run = record.current_run()
    except ClusterNotFound:
        return True
    return run is None or run.run_id != run_id


# ---- new lines ----------------------------------------------------------------------------------

#: Between two looks for lines, and for whether the run goes on.
_PAUSE_SECONDS, _LOOK_SECONDS = 2.0, 10.0

#: Hosts ship their lines within seconds, and CloudWatch shows them some seconds later: so much is
#: read again each time, and so long after the run's end.
_LATE_SECONDS, _LAST_SECONDS = 30.0, 10.0


@dataclass(eq=False)
class Follower:
    """Yields lines until the run is over, each once."""

    reader: LogReader
    is_over: Callable[[], bool]
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    wall_clock: Callable[[], float] = time.time
    #: Event id -> its time, as far back as is read again.
    _seen: dict[str, int] = field(default_factory=dict, init=False)
    _newest_ms: int = field(default=0, init=False)
    _floor_ms: int = field(default=0, init=False)

    def lines(self, question: Question, chosen: list[Streams], run_id: str) -> Iterator[LogLine]:
        """Yield what there is, then what comes."""
        was_over = self.is_over()
        for event, line in self.reader.lines(question, chosen, run_id):
            if not self._seen and question.tail is not None:
                # What is older was left out.
                self._floor_ms = int(event["timestamp"])
            self._note(event)
            yield line
        if was_over:
            return
        start_ms, _ = span(question, run_id)
        levels = Leveller()
        look_at, end_at = self.clock() + _LOOK_SECONDS, float("inf")
        while True:
            is_last = self.clock() >= end_at
            yield from self._new(question, chosen, start_ms, levels)
            if is_last:
                return
            if end_at == float("inf") and self.clock() >= look_at:
                look_at = self.clock() + _LOOK_SECONDS
                if self.is_over():
                    end_at = self.clock() + _LAST_SECONDS
            self.sleep(_PAUSE_SECONDS)

    def _new(
        self, question: Question, chosen: list[Streams], start_ms: int, levels: Leveller
    ) -> Iterator[LogLine]:
        # A host's clock may be ahead.
        until_ms = min(self._newest_ms, int(self.wall_clock() * 1000))
        since_ms = max(until_ms - int(_LATE_SECONDS * 1000), start_ms)
        self._seen = {name: at for name, at in self._seen.items() if at >= since_ms}
        for event in self.reader.events(chosen, since_ms):
            if event["eventId"] in self._seen or int(event["timestamp"]) < self._floor_ms:
                continue
            self._note(event)
            line = levelled_line(event, levels)
            if question.wants(line):
                yield line

    def _note(self, event: Event) -> None:
        at = int(event["timestamp"])
        self._seen[event["eventId"]] = at
        self._newest_ms = max(self._newest_ms, at)
