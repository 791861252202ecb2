"""Stores jobs' records and tasks' output, through the host program, in the bucket."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
from collections.abc import Callable
from typing import Any

from terradask_host.jobs import FORMAT, output_name, record_name
from terradask_host.rules.job_table import JobTable
from terradask_host.rules.output_tail import OutputTail

#: Pause between two stores of a changing record; longer for many tasks.
_PAUSE_SECONDS = 1.0
_TASKS_A_SECOND = 1_000


class JobRecords:
    """Stores records soon after a change, and at once when a job begins or is over."""

    def __init__(self, report: Callable[..., None]) -> None:
        self._report = report
        self._due: dict[JobTable, asyncio.TimerHandle] = {}

    def note(self, table: JobTable) -> None:
        """Schedule a store of a changed job."""
        if table.is_over or table.version == 1:
            self._keep_record(table)
        elif table not in self._due:
            pause_seconds = max(_PAUSE_SECONDS, len(table.tasks) / _TASKS_A_SECOND)
            loop = asyncio.get_running_loop()
            self._due[table] = loop.call_later(pause_seconds, self._keep_record, table)

    def keep_output(self, job: str, index: int, output: OutputTail) -> None:
        """Store a task's output."""
        pieces, missed, _ = output.read()
        document = {
            "format": FORMAT,
            "missed": missed,
            "pieces": [[stream, base64.b64encode(content).decode()] for stream, content in pieces],
        }
        self._keep(output_name(job, index), document)

    def flush(self) -> None:
        """Store all changed records."""
        for table in list(self._due):
            self._keep_record(table)

    def _keep_record(self, table: JobTable) -> None:
        due = self._due.pop(table, None)
        if due is not None:
            due.cancel()
        self._keep(record_name(table.job.id), table.record().to_document())

    def _keep(self, name: str, document: dict[str, Any]) -> None:
        packed = gzip.compress(json.dumps(document, separators=(",", ":")).encode(), mtime=0)
        self._report("job", name=name, content=base64.b64encode(packed).decode())
