"""Stores results of the scheduler's process in the bucket: records and output of jobs, and
performance reports.
"""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from terradask_host.agent.child import DaskChild
from terradask_host.agent.objects import ClusterObjects
from terradask_host.documents import MOST_REPORT_BYTES
from terradask_host.jobs import MOST_KEPT_BYTES, is_kept_name, record_name

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


class KeptReports:
    """Writes performance reports on a thread; failures are logged.

    `boot` is the number of the scheduler's process, which names its reports.
    """

    def __init__(self, objects: ClusterObjects, run_id: str, *, log: Callable[[str], None]) -> None:
        self._objects = objects
        self._run_id = run_id
        self._log = log
        self._writing: threading.Thread | None = None
        self.boot = 0

    def keep(self, child: DaskChild, facts: Mapping[str, Any]) -> None:
        """Store a report in place of its earlier version, and answer the scheduler's process."""

        def answer(why: str | None) -> None:
            child.send({"do": "answer", "number": facts.get("number"), "why": why})

        if self._writing is not None and self._writing.is_alive():
            return answer("another report is being kept")
        try:
            content = base64.b64decode(facts["content"], validate=True)
        except (LookupError, TypeError, ValueError):
            return answer("it can't be read")
        if len(content) > MOST_REPORT_BYTES:
            return answer(f"its {len(content)} bytes are more than {MOST_REPORT_BYTES}")
        # A daemon thread: a silent S3 must not keep the host alive.
        self._writing = threading.Thread(
            target=self._write, args=(content, answer), name="report", daemon=True
        )
        self._writing.start()
        return None

    def wait(self, seconds: float) -> None:
        """Wait until a report is written, at most `seconds`."""
        if self._writing is not None:
            self._writing.join(seconds)

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
