"""What a scheduler's host says in its log, where it can't say it in its report: S3 refuses it."""

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

#: An instance takes this long to boot, and a host reports as soon as it has. Then its log is read,
#: and again so often; CloudWatch has lines a few seconds after they were written.
_SILENT_SECONDS, _LOOK_SECONDS = 60.0, 30.0

#: The wait for a scheduler goes on while CloudWatch is busy.
_BUSY_SECONDS = 5.0

#: So many lines are kept and shown, as of a report.
_LINES = 40

#: How the host program and ``boot.sh`` say why they fail, and that a report wasn't taken.
_FAILED = re.compile(r"terradask-(?:host|boot): ERROR: ")
_UNREPORTED = re.compile(r"terradask-host: reports can't be written: ")


@dataclass
class LastWords:
    """Reads the log of a run's scheduler hosts while none of them has reported.

    Permissions needed: ``logs:DescribeLogStreams`` and ``logs:FilterLogEvents`` on the workspace's
    log group. Without them, or logs, there is nothing to read.
    """

    record: ClusterRecord
    run: Run
    _look_at: float | None = field(default=None, init=False)

    def check(self, instance_ids: Collection[str]) -> None:
        """Raise `HostFailed` if one of these hosts has failed, by its log; looks now and then."""
        now = time.monotonic()
        if self._look_at is None and instance_ids:
            self._look_at = now + _SILENT_SECONDS
        if self._look_at is None or now < self._look_at:
            return
        self._look_at = now + _LOOK_SECONDS
        self.check_now(instance_ids)

    def check_now(self, instance_ids: Collection[str]) -> str | None:
        """Return what these hosts' log says of their reports; None if nothing. Raises `HostFailed`
        as `check` does.
        """
        lines = self._read(instance_ids) if instance_ids else ()
        failed = [number for number, line in enumerate(lines) if _FAILED.match(line.text)]
        if failed:
            raise self._failure(lines[failed[-1] :], lines)
        told = [line for line in lines if _UNREPORTED.match(line.text)]
        return told[-1].plain_text if told else None

    def _read(self, instance_ids: Collection[str]) -> Sequence[LogLine]:
        # Few who attach need them, and the readers of logs take time to import.
        from terradask._observe.logs.cloudwatch import LogGroup
        from terradask._observe.logs.question import Question
        from terradask._observe.logs.reader import LogReader

        record, run_id = self.record, self.run.run_id
        question = Question(hosts=(SCHEDULER_GROUP,), run=run_id)
        try:
            group = LogGroup(record.aws, record.where.workspace, busy_seconds=_BUSY_SECONDS)
            reader = LogReader(group, record.name)
            chosen = reader.choose(question, run_id, is_last=True)
            lines = (line for _, line in reader.lines(question, chosen, run_id))
            return tuple(deque((line for line in lines if line.host in instance_ids), _LINES))
        except Exception:
            # The caller's policy may not allow it; then the wait ends without these words.
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
                "where S3 or KMS refuses hosts, check the rights of their role, which terradask "
                "apply network restores, and the policies of the bucket and its key; terradask "
                f"logs {cluster} scheduler shows all of the log. Then: terradask start {cluster}"
            ),
        )
