"""The host's log, and the batches that CloudWatch takes."""

from __future__ import annotations

import io
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from terradask_host.agent.logs import BATCH_BYTES, HostLog, LogShipper, take_batch
from terradask_host.errors import MetadataUnavailable
from terradask_host.log_streams import LogStream, parse_stream
from terradask_host.metadata import Identity

from ..waiting import eventually
from .log_account import GROUP, log_account


def test_batches_keep_cloudwatchs_limits() -> None:
    backlog = deque([(2, "b"), (1, "a")] + [(3, "x" * 30_000)] * 40)
    first = take_batch(backlog)
    assert first[:2] == [(1, "a"), (2, "b")]
    assert sum(len(line.encode()) + 26 for _, line in first) <= BATCH_BYTES
    assert len(first) + len(take_batch(backlog)) == 42
    assert not backlog
    assert len(take_batch(deque((n, "x") for n in range(10_001)))) == 10_000


def test_a_batch_spans_no_more_than_a_day() -> None:
    day = 86_400_000
    backlog = deque([(day, "a"), (0, "b"), (day + 1, "c"), (2 * day, "d"), (5 * day, "e")])
    batches = []
    while backlog:
        batches.append([line for _, line in take_batch(backlog)])
    assert batches == [["b", "a"], ["c", "d"], ["e"]]


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
    log.requeue(batch)
    assert log.take() == batch


RUN = "20261124T080000Z-1f3a9c"
HOST = Identity("i-0123456789abcdef0", "10.0.0.7", None, "us-east-1a", "etl", "worker", "gpu-spot")


class Logs:
    """CloudWatch's two calls, noted."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def client(self, name: str) -> Logs:
        assert name == "logs"
        return self

    def create_log_stream(self, **where: str) -> None:
        assert where["logGroupName"] == "/terradask/default"

    def put_log_events(self, **batch: Any) -> dict[str, Any]:
        name = batch["logStreamName"]
        self.lines += [(name, event["message"]) for event in batch["logEvents"]]
        return {"nextSequenceToken": "1"}


def shipping(
    log: HostLog,
    read_run: Callable[[], str | None],
    *,
    run_tag_seconds: float = 60.0,
    logs: Any = None,
) -> tuple[Logs, LogShipper]:
    logs = logs or Logs()
    shipper = LogShipper(
        logs,
        log,
        log_group="/terradask/default",
        identity=HOST,
        read_run=read_run,
        flush_seconds=0.01,
        run_tag_seconds=run_tag_seconds,
    )
    return logs, shipper


def test_a_stream_is_named_by_run_group_and_host_once_the_tag_is_there() -> None:
    tags = iter([None, None, RUN])

    def read_run() -> str | None:
        tag = next(tags)
        if tag is None:
            raise MetadataUnavailable("no answer")
        return tag

    log = HostLog(io.StringIO())
    log.write("x")
    logs, shipper = shipping(log, read_run)
    assert eventually(lambda: logs.lines) == [(f"etl/{RUN}/gpu-spot/i-0123456789abcdef0", "x")]
    shipper.close()
    name = logs.lines[0][0]
    assert parse_stream(name) == LogStream("etl", RUN, "gpu-spot", "i-0123456789abcdef0")


def test_a_host_that_never_knows_its_run_ships_its_lines_all_the_same() -> None:
    log = HostLog(io.StringIO())
    log.write("x")
    logs, shipper = shipping(log, lambda: None, run_tag_seconds=0.1)
    assert eventually(lambda: logs.lines) == [("etl/-/gpu-spot/i-0123456789abcdef0", "x")]
    shipper.close()
    # Also one that ends before.
    log.write("y")
    logs, shipper = shipping(log, lambda: None)
    shipper.close()
    assert logs.lines == [("etl/-/gpu-spot/i-0123456789abcdef0", "y")]


def test_a_tag_that_is_no_run_is_no_part_of_a_streams_name() -> None:
    log = HostLog(io.StringIO())
    log.write("x")
    logs, shipper = shipping(log, lambda: "../ml/*")
    shipper.close()
    assert logs.lines == [("etl/-/gpu-spot/i-0123456789abcdef0", "x")]


@pytest.mark.parametrize(
    "name",
    [
        "etl/i-0123456789abcdef0",
        f"etl/{RUN}/gpu",
        f"etl/{RUN}/gpu/i-1\n",
        f"etl/{RUN}x/gpu/i-0123456789abcdef0",
        f"Etl/{RUN}/gpu/i-0123456789abcdef0",
        "",
    ],
)
def test_other_names_are_no_hosts(name: str) -> None:
    assert parse_stream(name) is None


def test_an_error_has_a_level_and_its_lines_belong_to_it() -> None:
    log = HostLog(io.StringIO())
    log.error("Traceback (most recent call last):\n  File x\nValueError")
    assert log.tail() == [
        "terradask-host: ERROR: Traceback (most recent call last):",
        "    File x",
        "  ValueError",
    ]


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> HostLog:
    """A log with a line of each of the last 16 days."""
    log, now = HostLog(io.StringIO()), time.time()
    for age in range(16, 0, -1):
        monkeypatch.setattr(time, "time", lambda age=age: now - age * 86_400)
        log.write(f"{age} days")
    monkeypatch.setattr(time, "time", lambda: now)
    return log


def test_a_backlog_of_days_arrives_and_what_is_rejected_is_told_once(late: HostLog) -> None:
    with log_account() as account:
        _, shipper = shipping(late, lambda: RUN, logs=account.aws)
        shipper.close(30)
        (stream,) = account.client.describe_log_streams(logGroupName=GROUP)["logStreams"]
        found = account.client.get_log_events(
            logGroupName=GROUP, logStreamName=stream["logStreamName"], startFromHead=True
        )
    lines = [event["message"] for event in found["events"]]
    assert lines[:-1] == [f"{age} days" for age in range(13, 0, -1)]
    assert late.take() == []
    (told,) = [line for line in late.tail() if "rejected" in line]
    assert told == lines[-1]
    assert told.endswith("lines, as it will others: older than 14 days")


def test_a_batch_that_is_refused_for_ever_keeps_nothing_back() -> None:
    class RefusesFirst(Logs):
        """A CloudWatch that refuses the first batch with an error that no retry mends."""

        refused = False

        def put_log_events(self, **batch: Any) -> dict[str, Any]:
            if not self.refused:
                self.refused = True
                error = {"Code": "InvalidParameterException", "Message": "no such batch"}
                raise ClientError({"Error": error}, "PutLogEvents")
            return super().put_log_events(**batch)

    log = HostLog(io.StringIO())
    log.write("x")
    logs, shipper = shipping(log, lambda: RUN, logs=RefusesFirst())
    assert "no such batch" in eventually(lambda: logs.lines)[0][1]
    log.write("y")
    shipper.close()
    assert [line for _, line in logs.lines][1:] == ["y"]
