"""Read the failure of a scheduler's host from its log, if S3 refuses its reports."""

from __future__ import annotations

import itertools
import logging
import re
import time
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from terradask._observe.record import ClusterRecord
from terradask.errors import HostFailed
from terradask_host.documents import Run
from terradask_modules.names import SCHEDULER_GROUP

if TYPE_CHECKING:
    from terradask._observe.logs.lines import LogLine

logger = logging.getLogger("terradask")

#: An instance boots within the first time, and its host then reports. Without a report, the log is
#: read, and again at the second interval; CloudWatch shows lines a few seconds after their time.
_SILENT_SECONDS, _POLL_SECONDS = 60.0, 30.0

#: Limit of one read while CloudWatch is busy: the wait for a scheduler continues.
_BUSY_SECONDS = 5.0

#: Most lines in an error, as in a report.
_LINES = 40

#: The messages of the host program and ``boot.sh`` for a failure, and for a refused report.
_FAILED = re.compile(r"terradask-(?:host|boot): ERROR: ")
_UNREPORTED = re.compile(r"terradask-host: reports can't be written: ")


@dataclass
class SchedulerHostLog:
    """Read the log of a run's scheduler hosts while none of them has reported.

    Permissions needed: ``logs:DescribeLogStreams`` and ``logs:FilterLogEvents`` on the workspace's
    log group. Without them, or without logs, nothing is found.
    """

    record: ClusterRecord
    run: Run
    _due_at: float | None = field(default=None, init=False)

    def check(self, instance_ids: Collection[str]) -> None:
        """Read the log if due, and raise `HostFailed` if it has a failure of one of these hosts."""
        now = time.monotonic()
        if self._due_at is None and instance_ids:
            self._due_at = now + _SILENT_SECONDS
        if self._due_at is None or now < self._due_at:
            return
        self._due_at = now + _POLL_SECONDS
        self.check_now(instance_ids)

    def check_now(self, instance_ids: Collection[str]) -> str | None:
        """Return the last message about refused reports, or None. Raises as `check` does."""
        lines = self._read(instance_ids) if instance_ids else ()
        failed = [number for number, line in enumerate(lines) if _FAILED.match(line.text)]
        if failed:
            raise self._failure(lines[failed[-1] :], lines)
        refused = [line for line in lines if _UNREPORTED.match(line.text)]
        return refused[-1].plain_text if refused else None

    def _read(self, instance_ids: Collection[str]) -> Sequence[LogLine]:
        # Rarely needed, and slow to import.
        from terradask._observe.logs.query import LogQuery
        from terradask._observe.logs.reader import LogGroup, LogReader

        record, run_id = self.record, self.run.run_id
        query = LogQuery(hosts=(SCHEDULER_GROUP,), run=run_id)
        try:
            group = LogGroup(record.aws, record.where.workspace, busy_seconds=_BUSY_SECONDS)
            reader = LogReader(group, record.name)
            chosen = reader.choose(query, run_id, is_last=True)
            lines = (line for _, line in reader.lines(query, chosen, run_id))
            return tuple(deque((line for line in lines if line.host in instance_ids), _LINES))
        except Exception:
            # The caller's policy may not allow it: then the wait ends without a reason.
            logger.debug("can't read the log of %s's scheduler", record.name, exc_info=True)
            return ()

    def _failure(self, since: Sequence[LogLine], lines: Sequence[LogLine]) -> HostFailed:
        first, *rest = (line for line in since if line.host == since[0].host)
        more = itertools.takewhile(lambda line: line.text.startswith(" "), rest)
        reason = " ".join(
            [_FAILED.sub("", first.plain_text), *(m.plain_text.strip() for m in more)]
        )
        cluster = self.record.name
        return HostFailed(
            f"The scheduler's host of cluster {cluster!r} failed, and could not report that to S3.",
            cluster=cluster,
            instance_id=first.host,
            reason=reason,
            log_tail=[line.plain_text for line in lines if line.host == first.host],
            advice=(
                "if S3 or KMS refuses hosts, check the rights of their role, which terradask apply "
                "network restores, and the policies of the bucket and its key; terradask logs "
                f"{cluster} scheduler shows the complete log. Then: terradask start {cluster}"
            ),
        )
