"""The host's log, and the batches that CloudWatch takes."""

from __future__ import annotations

import io
from collections import deque

from terradask_host.agent.logs import BATCH_BYTES, HostLog, take_batch


def test_batches_keep_cloudwatchs_limits() -> None:
    backlog = deque([(2, "b"), (1, "a")] + [(3, "x" * 30_000)] * 40)
    first = take_batch(backlog)
    assert first[:2] == [(1, "a"), (2, "b")]
    assert sum(len(line.encode()) + 26 for _, line in first) <= BATCH_BYTES
    assert len(first) + len(take_batch(backlog)) == 42
    assert not backlog
    assert len(take_batch(deque((n, "x") for n in range(10_001)))) == 10_000


def test_a_line_larger_than_a_batch_is_not_stuck() -> None:
    backlog = deque([(1, "x" * (BATCH_BYTES + 1))])
    assert len(take_batch(backlog)) == 1


def test_the_log_book_keeps_the_tail_and_gives_back() -> None:
    stream = io.StringIO()
    log = HostLog(stream)
    for number in range(50):
        log.write(f"line {number}")
    log.write("")
    log.info("two\nlines")
    assert log.tail()[-2:] == ["terradask-host: two", "terradask-host: lines"]
    assert len(log.tail()) == 40
    assert stream.getvalue().startswith("line 0\nline 1\n")
    batch = log.take()
    assert len(batch) == 52
    assert log.take() == []
    log.give_back(batch)
    assert log.take() == batch
