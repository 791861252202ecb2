"""Adds up what workers use, as the scheduler's process reports it, and stores the sums beside the
run's performance reports.
"""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from terradask_host.agent.objects import ClusterObjects
from terradask_host.documents import now_text
from terradask_host.gauges import number
from terradask_host.trouble import Trouble
from terradask_host.usage import MOST_USAGE_BYTES, GroupUsage, HostUsage, RunUsage, usage_name


class KeptUsage:
    """The sums of one scheduler's process, written at intervals on a thread; failures are logged.

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
        self._writing: threading.Thread | None = None

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
        if self._is_written or (self._writing is not None and self._writing.is_alive()):
            return
        self._written_at, self._is_written = time.monotonic(), True
        content = gzip.compress(json.dumps(self.usage().to_document()).encode(), mtime=0)
        # A daemon thread: a silent S3 must not keep the host alive.
        self._writing = threading.Thread(
            target=self._put, args=(usage_name(self._run_id, self._boot), content), daemon=True
        )
        self._writing.start()

    def wait(self, seconds: float) -> None:
        """Write what isn't written yet, and wait for it, at most `seconds`."""
        until = time.monotonic() + seconds
        for _ in range(2):
            if self._writing is not None:
                self._writing.join(max(until - time.monotonic(), 0.0))
            self.write()
        if self._writing is not None:
            self._writing.join(max(until - time.monotonic(), 0.0))

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
