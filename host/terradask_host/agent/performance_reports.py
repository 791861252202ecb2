"""Keeps the performance reports that the scheduler's process makes, in the bucket."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from terradask_host.agent.child import DaskChild
from terradask_host.agent.objects import ClusterObjects
from terradask_host.documents import MOST_REPORT_BYTES


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
