"""The host's log: the journal, the last lines for reports, CloudWatch, and the boot's output."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TextIO

from terradask_host.agent.aws import Aws, describe_error, error_code
from terradask_host.agent.report import TAIL_LINES
from terradask_host.config import Paths
from terradask_host.errors import MetadataUnavailable
from terradask_host.log_streams import LogStream, known_run
from terradask_host.metadata import Identity

#: AWS (documented, logs-batch): CloudWatch PutLogEvents takes up to 10,000 events of 1,048,576
#: bytes together, each counted with 26 more, in order of time, within 24 hours.
#: https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutLogEvents.html
BATCH_BYTES = 1_000_000
BATCH_EVENTS = 10_000
EVENT_OVERHEAD_BYTES = 26
BATCH_MILLISECONDS = 24 * 3_600_000

#: Longer lines are cut.
#: AWS (documented): CloudWatch PutLogEvents takes events of up to 1 MB.
#: https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutLogEvents.html
LINE_CHARACTERS = 32_768

#: Lines kept while CloudWatch is unavailable.
BACKLOG_LINES = 50_000

#: How long lines wait for the run's tag, which may appear after the launch.
RUN_TAG_SECONDS = 60.0

LogEvent = tuple[int, str]


def take_batch(backlog: deque[LogEvent]) -> list[LogEvent]:
    """Take as many events from the left as one PutLogEvents may carry, in order of time."""
    batch: list[LogEvent] = []
    size = 0
    earliest = latest = backlog[0][0] if backlog else 0
    while backlog and len(batch) < BATCH_EVENTS:
        at, line = backlog[0]
        size += len(line.encode()) + EVENT_OVERHEAD_BYTES
        earliest, latest = min(earliest, at), max(latest, at)
        if batch and (size > BATCH_BYTES or latest - earliest > BATCH_MILLISECONDS):
            break
        batch.append(backlog.popleft())
    return sorted(batch, key=lambda event: event[0])


def rejected_lines(info: Mapping[str, int], n: int) -> dict[str, int]:
    """Return how many of a batch's `n` events AWS rejected, for each of its reasons.

    AWS (documented): events that are older than 14 days or than the group's retention, or more than
    2 hours ahead, are rejected, and the others taken; indexes of an end are exclusive.
    https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_RejectedLogEventsInfo.html
    """
    old = info.get("tooOldLogEventEndIndex", 0)
    found = {
        "older than 14 days": old,
        "older than the log group's retention": info.get("expiredLogEventEndIndex", 0) - old,
        "more than 2 hours ahead of AWS's clock": n - info.get("tooNewLogEventStartIndex", n),
    }
    return {why: count for why, count in found.items() if count > 0}


class HostLog:
    """Takes lines from any thread, writes them to the journal and keeps the last."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._lock = threading.Lock()
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._backlog: deque[LogEvent] = deque(maxlen=BACKLOG_LINES)
        self._dropped = 0

    def info(self, line: str) -> None:
        """Log a message of the host program."""
        for part in line.splitlines():
            self.write(f"terradask-host: {part}")

    def error(self, text: str) -> None:
        """Log the host's failure, with a level that log readers recognise."""
        first, *rest = text.splitlines() or [""]
        self.write(f"terradask-host: ERROR: {first}")
        for line in rest:
            self.write(f"  {line}")

    def write(self, line: str) -> None:
        """Log an unchanged line."""
        line = line[:LINE_CHARACTERS]
        with self._lock:
            self._tail.append(line)
            self._queue(line)
            self._stream.write(line + "\n")
            self._stream.flush()

    def ship_only(self, line: str) -> None:
        """Queue a line for CloudWatch that is already in this machine's files."""
        with self._lock:
            self._queue(line[:LINE_CHARACTERS])

    def _queue(self, line: str) -> None:
        # AWS (documented): CloudWatch PutLogEvents takes messages of at least one character.
        # https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_InputLogEvent.html
        if line:
            self._dropped += len(self._backlog) == BACKLOG_LINES
            self._backlog.append((int(time.time() * 1000), line))

    def tail(self) -> list[str]:
        """Return the last lines, oldest first."""
        with self._lock:
            return list(self._tail)

    def take(self) -> list[LogEvent]:
        """Take a batch of unshipped lines."""
        with self._lock:
            if self._dropped:
                lost = f"{self._dropped} lines were lost: CloudWatch was unavailable"
                self._backlog.append((int(time.time() * 1000), f"terradask-host: {lost}"))
                self._dropped = 0
            return take_batch(self._backlog)

    def requeue(self, batch: list[LogEvent]) -> None:
        """Put an unshipped batch back; lines beyond the limit are lost and counted."""
        with self._lock:
            room = BACKLOG_LINES - len(self._backlog)
            kept = batch[-room:] if room else []
            self._dropped += len(batch) - len(kept)
            self._backlog.extendleft(reversed(kept))


class StreamWriter:
    """Creates a log stream and writes events to it.

    Permissions: ``logs:CreateLogStream`` and ``logs:PutLogEvents`` on the log group.
    """

    def __init__(self, aws: Aws, log_group: str, stream: str) -> None:
        self._aws = aws
        self._where = {"logGroupName": log_group, "logStreamName": stream}
        #: Whether the stream was created.
        self.exists = False

    def put(self, batch: list[LogEvent]) -> dict[str, int]:
        """Write a batch in order of time; return how many events AWS rejected, for each reason.

        Raises botocore's errors.
        """
        logs = self._aws.client("logs")
        if not self.exists:
            try:
                logs.create_log_stream(**self._where)
            except Exception as error:
                if error_code(error) != "ResourceAlreadyExistsException":
                    raise
            self.exists = True
        answer = logs.put_log_events(
            **self._where, logEvents=[{"timestamp": at, "message": line} for at, line in batch]
        )
        return rejected_lines(answer.get("rejectedLogEventsInfo") or {}, len(batch))


class LogShipper:
    """Ships a log to CloudWatch on a thread, once the instance's tag names its run.

    Permissions: ``logs:CreateLogStream`` and ``logs:PutLogEvents`` on the workspace's log group.
    """

    def __init__(
        self,
        aws: Aws,
        log: HostLog,
        *,
        log_group: str,
        identity: Identity,
        read_run: Callable[[], str | None],
        flush_seconds: float,
        run_tag_seconds: float = RUN_TAG_SECONDS,
    ) -> None:
        self._aws = aws
        self._log = log
        self._log_group = log_group
        self._identity = identity
        self._read_run = read_run
        self._flush_seconds = flush_seconds
        self._give_up_at = time.monotonic() + run_tag_seconds
        self._closing = threading.Event()
        self._stream: StreamWriter | None = None
        self._warned = False
        #: Reasons of CloudWatch's that were logged.
        self._reported: set[str] = set()
        self._thread = threading.Thread(target=self._ship_all, name="log-shipper", daemon=True)
        self._thread.start()

    def close(self, timeout_seconds: float = 5.0) -> None:
        """Ship the remaining lines, within the timeout."""
        self._closing.set()
        self._thread.join(timeout_seconds)

    def _ship_all(self) -> None:
        pause = self._flush_seconds
        while not self._closing.wait(pause):
            pause = self._flush_seconds if self._ship() else min(pause * 2, 60.0)
        self._ship()

    def _find_stream(self) -> StreamWriter | None:
        """Return the host's stream; None while its run may still become known."""
        try:
            run_id = self._read_run()
        except MetadataUnavailable:
            run_id = None
        is_over = self._closing.is_set() or time.monotonic() > self._give_up_at
        if run_id is None and not is_over:
            return None
        own = self._identity
        stream = LogStream(own.cluster, known_run(run_id), own.group, own.instance_id)
        return StreamWriter(self._aws, self._log_group, stream.name)

    def _ship(self) -> bool:
        if self._stream is None:
            self._stream = self._find_stream()
        if self._stream is None:
            return True
        while batch := self._log.take():
            try:
                self._report_rejected(self._stream.put(batch))
            except Exception as error:  # noqa: BLE001 - failed shipping must not end the host
                if self._stream.exists and error_code(error) == "InvalidParameterException":
                    # It would be refused for ever, and all that follows with it.
                    self._report_rejected({f"refused: {error}": len(batch)})
                    continue
                self._log.requeue(batch)
                if not self._warned:
                    self._warned = True
                    self._log.info(f"CloudWatch takes no lines: {describe_error(error)}")
                return False
            self._warned = False
        return True

    def _report_rejected(self, rejected: Mapping[str, int]) -> None:
        """Log the first lines that CloudWatch rejects for a reason."""
        for why in rejected.keys() - self._reported:
            self._reported.add(why)
            self._log.info(f"CloudWatch rejected {rejected[why]} lines, as it will others: {why}")


# ---- the boot's output ---------------------------------------------------------------------------


#: At most this much is shipped: a boot prints a few hundred lines.
MOST_BOOT_BYTES = 2**20

#: cloud-init continues after boot.sh; it prints this line at its end.
_BOOT_END = re.compile(r"Cloud-init v\. .* finished at ")

#: The limit without such a line.
_MOST_BOOT_SECONDS = 600.0


def mark_line(line: str) -> str:
    """Prefix a line of the boot's output with the name of its program."""
    return line if not line or line.startswith("terradask-boot: ") else f"cloud-init: {line}"


class BootLog:
    """Ships the output of cloud-init and boot.sh on a thread until cloud-init has ended.

    Each line is shipped once, even if the host program is restarted.
    """

    def __init__(self, paths: Paths, log: HostLog, *, pause_seconds: float = 1.0) -> None:
        self._output = paths.boot_output
        self._mark = paths.boot_output_shipped
        self._log = log
        self._pause_seconds = pause_seconds
        self._tries = int(_MOST_BOOT_SECONDS / pause_seconds)
        self._closing = threading.Event()
        # Existing output comes before the host program's own lines.
        self._is_whole = self._try_to_ship()
        self._thread = threading.Thread(target=self._follow, name="boot-log", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ship the output so far."""
        self._closing.set()
        self._thread.join(self._pause_seconds + 1.0)

    def _follow(self) -> None:
        for _ in range(self._tries):
            if self._is_whole:
                return
            is_last = self._closing.wait(self._pause_seconds)
            self._is_whole = self._try_to_ship() or is_last

    def _try_to_ship(self) -> bool:
        try:
            return self._ship()
        except OSError as error:
            self._log.info(f"the boot's output can't be shipped: {error}")
            return True

    def _ship(self) -> bool:
        """Ship the new complete lines; return whether the output has ended."""
        begin = _read_number(self._mark)
        with self._output.open("rb") as output:
            output.seek(begin)
            new = output.read(MOST_BOOT_BYTES - begin) if begin < MOST_BOOT_BYTES else b""
        whole = new[: new.rfind(b"\n") + 1]
        lines = whole.decode(errors="replace").splitlines()
        for line in lines:
            self._log.ship_only(mark_line(line))
        if whole:
            self._mark.write_text(str(begin + len(whole)))
        return begin + len(new) >= MOST_BOOT_BYTES or any(map(_BOOT_END.match, lines))


def _read_number(path: Path) -> int:
    try:
        return int(path.read_text())
    except (FileNotFoundError, ValueError):
        return 0
