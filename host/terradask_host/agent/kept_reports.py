"""Keeps what the scheduler's process hands over in the bucket: the records of jobs, their tasks'
output, and performance reports.
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

#: Between the tries of one write: S3 may be out of reach for minutes.
_PAUSES_SECONDS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0)
#: Side by side, so that a thousand short tasks don't wait for each other.
_THREADS = 4
#: So much may wait to be written; more is dropped, and logged.
_MOST_WAITING_BYTES = 256 * 2**20


class KeptJobs:
    """Writes beside what its host does, the newest of each object; what can't be written is logged.

    Names of objects come from a process that runs tasks' code: only those that can be a
    job's are taken.
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
        """Have an object written, in place of the one before it."""
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
            # Daemons: S3's silence must not keep a host.
            self._threads = [
                threading.Thread(target=self._write, name=f"jobs-{number}", daemon=True)
                for number in range(_THREADS)
            ]
            for thread in self._threads:
                thread.start()
        return None

    def wait(self, seconds: float) -> None:
        """Wait until all is written, for so long at most."""
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
        """Return what to write next: no object is written by two threads, and a job's record only
        once what its tasks wrote before is there.
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
            except Exception as error:  # noqa: BLE001 - the host goes on without it
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
        """Log what is wrong, once until an object can be written again."""
        if not self._is_in_trouble:
            self._log(text)
        self._is_in_trouble = True


class KeptReports:
    """Writes reports beside what its host does; one that can't be written is logged.

    `boot` is the number of the scheduler's process, from which on its reports are named.
    """

    def __init__(self, objects: ClusterObjects, run_id: str, *, log: Callable[[str], None]) -> None:
        self._objects = objects
        self._run_id = run_id
        self._log = log
        self._writing: threading.Thread | None = None
        self.boot = 0

    def keep(self, child: DaskChild, facts: Mapping[str, Any]) -> None:
        """Keep a report in place of the one before it, and tell the scheduler's process."""

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
        # A daemon: S3's silence must not keep a host.
        self._writing = threading.Thread(
            target=self._write, args=(content, answer), name="report", daemon=True
        )
        self._writing.start()
        return None

    def wait(self, seconds: float) -> None:
        """Wait until a report that is being written is there, for so long at most."""
        if self._writing is not None:
            self._writing.join(seconds)

    def _write(self, content: bytes, answer: Callable[[str | None], None]) -> None:
        name, began = f"{self._run_id}/{self.boot}.html.gz", time.monotonic()
        why = None
        try:
            self._objects.write_report(name, content)
        except Exception as error:  # noqa: BLE001 - the host goes on, and ends, without it
            why = f"{type(error).__name__}: {error}"
            self._log(f"the performance report can't be kept: {why}")
        else:
            seconds = time.monotonic() - began
            self._log(f"performance report kept: {name}, {len(content)} bytes in {seconds:.1f} s")
        answer(why)
