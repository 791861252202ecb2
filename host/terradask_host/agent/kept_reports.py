"""Stores what the scheduler's process reports: records and output of jobs, performance reports, and
what workers use in the bucket; gauges in CloudWatch Logs, which extracts metrics from them.
"""

from __future__ import annotations

import base64
import gzip
import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from terradask_host.agent.aws import describe_error
from terradask_host.agent.child import DaskChild
from terradask_host.agent.host import Host
from terradask_host.agent.logs import StreamWriter
from terradask_host.agent.objects import ClusterObjects
from terradask_host.documents import MOST_REPORT_BYTES, now_text
from terradask_host.gauges import embedded_metrics, known_values, number
from terradask_host.jobs import MOST_KEPT_BYTES, is_kept_name, record_name
from terradask_host.log_streams import metrics_stream
from terradask_host.trouble import Trouble
from terradask_host.usage import MOST_USAGE_BYTES, GroupUsage, HostUsage, RunUsage, usage_name

#: Pause between tries of a write: S3 may be out of reach for minutes.
_PAUSES_SECONDS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0)
#: Concurrent writes, so that a thousand short tasks don't wait for each other.
_THREADS = 4
#: Most bytes that wait to be written; more is dropped and logged.
_MOST_WAITING_BYTES = 256 * 2**20


class KeptJobs:
    """Writes the newest version of each object on threads; failures are logged.

    Names come from a process that runs tasks' code: only valid names of jobs' objects are accepted.
    """

    def __init__(self, objects: ClusterObjects, *, log: Callable[[str], None]) -> None:
        self._objects = objects
        self._log = log
        self._waiting: dict[str, bytes] = {}
        self._writing: dict[str, bytes] = {}
        self._bytes = 0
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._is_in_trouble = False

    def keep(self, facts: Mapping[str, Any]) -> None:
        """Queue an object, in place of its earlier version."""
        try:
            name = str(facts["name"])
            content = base64.b64decode(facts["content"], validate=True)
        except (LookupError, TypeError, ValueError):
            return self._log("a job's record can't be read")
        if not is_kept_name(name) or len(content) > MOST_KEPT_BYTES:
            return self._log("a job's record has a wrong name, or is too large")
        with self._changed:
            number_of_bytes = self._bytes + len(content) - len(self._waiting.get(name, b""))
            if number_of_bytes > _MOST_WAITING_BYTES:
                return self._log_trouble(f"too much waits to be written: {name} is dropped")
            self._bytes = number_of_bytes
            self._waiting[name] = content
            self._changed.notify_all()
        if not self._threads:
            # Daemon threads: a silent S3 must not keep the host alive.
            self._threads = [
                threading.Thread(target=self._write, name=f"jobs-{number}", daemon=True)
                for number in range(_THREADS)
            ]
            for thread in self._threads:
                thread.start()
        return None

    def wait(self, seconds: float) -> None:
        """Wait until all objects are written, at most `seconds`."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting and not self._writing, seconds)

    def _write(self) -> None:
        while True:
            with self._changed:
                while (name := self._next()) is None:
                    self._changed.wait()
                self._writing[name] = self._waiting.pop(name)
            self._put(name)
            with self._changed:
                self._bytes -= len(self._writing.pop(name))
                self._changed.notify_all()

    def _next(self) -> str | None:
        """Return the next object to write.

        Only one thread writes an object, and a job's record follows its tasks' earlier writes.
        """
        for name in self._waiting:
            if name in self._writing:
                continue
            job = name.partition("/")[0]
            if name == record_name(job) and any(one.startswith(job) for one in self._writing):
                return None
            return name
        return None

    def _put(self, name: str) -> None:
        for pause_seconds in (*_PAUSES_SECONDS, None):
            try:
                self._objects.write_job(name, self._writing[name])
            except Exception as error:  # noqa: BLE001 - the host works without it
                why = f"{type(error).__name__}: {error}"
            else:
                self._is_in_trouble = False
                return
            if pause_seconds is not None:
                self._log_trouble(f"{name} of a job can't be kept yet: {why}")
                time.sleep(pause_seconds)
                with self._changed:
                    if (newer := self._waiting.pop(name, None)) is not None:
                        self._bytes -= len(self._writing[name])
                        self._writing[name] = newer
        self._log(f"{name} of a job can't be kept: {why}")

    def _log_trouble(self, text: str) -> None:
        """Log a failure once, until an object can be written again."""
        if not self._is_in_trouble:
            self._log(text)
        self._is_in_trouble = True


class OneWrite:
    """Writes one thing at a time on a daemon thread: a silent AWS must not keep the host alive."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None

    @property
    def is_going_on(self) -> bool:
        """Whether the last write hasn't ended."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, write: Callable[..., None], *arguments: Any) -> None:
        """Write."""
        self._thread = threading.Thread(target=write, args=arguments, name=self._name, daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> None:
        """Wait until it has ended, at most `seconds`."""
        if self._thread is not None:
            self._thread.join(max(seconds, 0.0))


class KeptReports:
    """Writes performance reports on a thread; failures are logged.

    `boot` is the number of the scheduler's process, which names its reports.
    """

    def __init__(self, objects: ClusterObjects, run_id: str, *, log: Callable[[str], None]) -> None:
        self._objects = objects
        self._run_id = run_id
        self._log = log
        self._writing = OneWrite("report")
        self.boot = 0

    def keep(self, child: DaskChild, facts: Mapping[str, Any]) -> None:
        """Store a report in place of its earlier version, and answer the scheduler's process."""

        def answer(why: str | None) -> None:
            child.send({"do": "answer", "number": facts.get("number"), "why": why})

        if self._writing.is_going_on:
            return answer("another report is being kept")
        try:
            content = base64.b64decode(facts["content"], validate=True)
        except (LookupError, TypeError, ValueError):
            return answer("it can't be read")
        if len(content) > MOST_REPORT_BYTES:
            return answer(f"its {len(content)} bytes are more than {MOST_REPORT_BYTES}")
        return self._writing.start(self._write, content, answer)

    def wait(self, seconds: float) -> None:
        """Wait until a report is written, at most `seconds`."""
        self._writing.wait(seconds)

    def _write(self, content: bytes, answer: Callable[[str | None], None]) -> None:
        name, began = f"{self._run_id}/{self.boot}.html.gz", time.monotonic()
        why = None
        try:
            self._objects.write_report(name, content)
        except Exception as error:  # noqa: BLE001 - the host works and ends without it
            why = f"{type(error).__name__}: {error}"
            self._log(f"the performance report can't be kept: {why}")
        else:
            seconds = time.monotonic() - began
            self._log(f"performance report kept: {name}, {len(content)} bytes in {seconds:.1f} s")
        answer(why)


class KeptUsage:
    """Adds up what workers use, and writes the sums of one scheduler's process beside the run's
    performance reports, at intervals on a thread; failures are logged.

    `group_of` returns the group of workers that an instance is in, or None for another one.
    """

    def __init__(
        self,
        objects: ClusterObjects,
        run_id: str,
        *,
        group_of: Callable[[str], str | None],
        interval_seconds: float,
        log: Callable[[str], None],
    ) -> None:
        self._objects = objects
        self._run_id = run_id
        self._group_of = group_of
        self._interval_seconds = interval_seconds
        self._trouble = Trouble(log)
        self._hosts: dict[str, HostUsage] = {}
        self._seconds = self._busy_seconds = 0.0
        self._boot = 0
        self._written_at = float("-inf")
        self._is_written = True
        self._writing = OneWrite("usage")

    def start(self, boot: int) -> None:
        """Start the sums of a scheduler's process, by its number in the run."""
        self.write()
        self._boot = boot
        self._hosts, self._seconds, self._busy_seconds = {}, 0.0, 0.0

    def take(self, facts: Mapping[str, Any]) -> None:
        """Add a report, and write the sums once an interval. The first one is written at once."""
        try:
            parts = [HostUsage.read(row) for row in facts["hosts"]]
        except (LookupError, TypeError, ValueError):
            return self._trouble.note("the use of workers can't be read")
        for part in parts:
            before = self._hosts.get(part.host)
            self._hosts[part.host] = part if before is None else before.plus(part)
        self._seconds += number(facts.get("seconds"))
        self._busy_seconds += number(facts.get("scheduler_busy_seconds"))
        self._is_written = False
        if time.monotonic() - self._written_at >= self._interval_seconds:
            self.write()
        return None

    def usage(self) -> RunUsage:
        """Return the sums. Hosts that are in no group of the cluster don't count."""
        by_group: dict[str, list[HostUsage]] = defaultdict(list)
        for name, host in self._hosts.items():
            if (group := self._group_of(name)) is not None:
                by_group[group].append(host)
        groups = {group: GroupUsage.of(hosts) for group, hosts in sorted(by_group.items())}
        return RunUsage(now_text(), self._seconds, self._busy_seconds, groups)

    def write(self) -> None:
        """Write the sums on a thread, unless it still writes."""
        if self._is_written or self._writing.is_going_on:
            return
        self._written_at, self._is_written = time.monotonic(), True
        content = gzip.compress(json.dumps(self.usage().to_document()).encode(), mtime=0)
        self._writing.start(self._put, usage_name(self._run_id, self._boot), content)

    def wait(self, seconds: float) -> None:
        """Write what isn't written yet, and wait for it, at most `seconds`."""
        until = time.monotonic() + seconds
        for _ in range(2):
            self._writing.wait(until - time.monotonic())
            self.write()
        self._writing.wait(until - time.monotonic())

    def _put(self, name: str, content: bytes) -> None:
        if len(content) > MOST_USAGE_BYTES:
            return self._trouble.note("the use of workers is too large to be kept")
        try:
            self._objects.write_report(name, content)
        except Exception as error:  # noqa: BLE001 - the host works and ends without it
            self._trouble.note(f"the use of workers can't be kept: {type(error).__name__}: {error}")
        else:
            self._trouble.is_over()
        return None


class MetricsLog:
    """Writes a line for each report of the scheduler's process, if the cluster has metrics.

    A line that can't be written is lost; the first failure is logged. At most one line is written
    per half interval, whatever the process sends.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._is_wanted = host.cluster.scheduler.metrics == "cloudwatch"
        self._least_seconds = host.config.timing.gauge_seconds / 2
        stream = metrics_stream(host.identity.cluster, host.run_id)
        self._stream = StreamWriter(host.aws, host.config.log_group, stream)
        self._writing = OneWrite("metrics")
        self._written_at: float | None = None
        self._warned = False

    def take(self, facts: Mapping[str, Any]) -> None:
        """Write gauges on a thread."""
        now = time.monotonic()
        is_early = self._written_at is not None and now - self._written_at < self._least_seconds
        values = known_values(facts.get("values"))
        if not self._is_wanted or is_early or self._writing.is_going_on or not values:
            return
        self._written_at = now
        at_ms = int(time.time() * 1000)
        line = embedded_metrics(
            values,
            workspace=self._host.config.workspace,
            cluster=self._host.identity.cluster,
            run_id=self._host.run_id,
            at_ms=at_ms,
        )
        self._writing.start(self._write, at_ms, line)

    def _write(self, at_ms: int, line: str) -> None:
        try:
            why = ", ".join(self._stream.put([(at_ms, line)]))
        except Exception as error:  # noqa: BLE001 - metrics must not end a host
            why = f"{describe_error(error)}"
        if why and not self._warned:
            self._host.log.info(f"CloudWatch takes no metrics: {why}")
        self._warned = bool(why)
