"""New lines of a running cluster's logs, as they come."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from terradask._deployments.logs.levels import Leveller
from terradask._deployments.logs.lines import LogLine
from terradask._deployments.logs.question import Question, Streams
from terradask._deployments.logs.reader import Event, LogReader, levelled_line, span

#: Between two looks for lines, and for whether the run goes on.
_PAUSE_SECONDS, _LOOK_SECONDS = 2.0, 10.0

#: Hosts ship their lines within seconds, and CloudWatch shows them some seconds later: so much is
#: read again each time, and so long after the run's end.
_LATE_SECONDS, _LAST_SECONDS = 30.0, 10.0


class Follower:
    """Yields lines until the run is over, each once.

    Parameters
    ----------
    reader
        Reads the cluster's logs.
    is_over
        Returns whether the run is over.
    sleep, clock, wall_clock
        Of the `time` module.
    """

    def __init__(
        self,
        reader: LogReader,
        is_over: Callable[[], bool],
        *,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._reader = reader
        self._is_over = is_over
        self._sleep = sleep
        self._clock = clock
        self._wall_clock = wall_clock
        #: Event id -> its time, as far back as is read again.
        self._seen: dict[str, int] = {}
        self._newest_ms = 0
        self._floor_ms = 0

    def lines(self, question: Question, chosen: list[Streams], run_id: str) -> Iterator[LogLine]:
        """Yield what there is, then what comes."""
        was_over = self._is_over()
        for event, line in self._reader.lines(question, chosen, run_id):
            if not self._seen and question.tail is not None:
                # What is older was left out.
                self._floor_ms = int(event["timestamp"])
            self._note(event)
            yield line
        if was_over:
            return
        start_ms, _ = span(question, run_id)
        levels = Leveller()
        look_at, end_at = self._clock() + _LOOK_SECONDS, float("inf")
        while True:
            is_last = self._clock() >= end_at
            yield from self._new(question, chosen, start_ms, levels)
            if is_last:
                return
            if end_at == float("inf") and self._clock() >= look_at:
                look_at = self._clock() + _LOOK_SECONDS
                if self._is_over():
                    end_at = self._clock() + _LAST_SECONDS
            self._sleep(_PAUSE_SECONDS)

    def _new(
        self, question: Question, chosen: list[Streams], start_ms: int, levels: Leveller
    ) -> Iterator[LogLine]:
        # A host's clock may be ahead.
        until_ms = min(self._newest_ms, int(self._wall_clock() * 1000))
        since_ms = max(until_ms - int(_LATE_SECONDS * 1000), start_ms)
        self._seen = {name: at for name, at in self._seen.items() if at >= since_ms}
        for event in self._reader.events(chosen, since_ms):
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
