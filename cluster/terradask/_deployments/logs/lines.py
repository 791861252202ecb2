"""Lines of a cluster's logs, and how they are shown. Pure.

Tasks write most of them, so no line is shown as it came: control characters could rewrite what a
terminal shows, and turn round how it reads.
"""

from __future__ import annotations

import datetime
import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, overload

from terradask._common.naming import counted
from terradask._deployments.logs.levels import Level
from terradask_host.documents import plain_lines
from terradask_modules.names import SCHEDULER_GROUP

#: So many lines, the newest, a notebook shows.
_SHOWN_LINES = 1_000


@dataclass(frozen=True)
class LogLine:
    """One line of a host's log.

    Parameters
    ----------
    at
        When the host wrote it, in UTC, by its own clock.
    host
        The host's instance id.
    group
        The host's group: ``scheduler``, ``workers``, a named group, each of workers also with
        ``-spot``.
    run
        Id of the host's run; None if the host didn't know it.
    level
        ``debug``, ``info``, ``warning``, ``error`` or ``critical``, by the formats of Dask's and
        Python's logging; None for a line without one, such as what tasks print.
    text
        The line as it was written. Tasks write it, so it may hold control characters; `str` gives
        the line without them.
    """

    at: datetime.datetime
    host: str
    group: str
    run: str | None
    level: Level | None
    text: str

    @property
    def label(self) -> str:
        """Short name of the host: ``scheduler``, or its group and instance id."""
        return self.group if self.group == SCHEDULER_GROUP else f"{self.group}/{self.host}"

    @property
    def plain_text(self) -> str:
        """The text on one line, with a replacement for each control character."""
        shown: str = plain_lines(self.text)
        return shown

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%dT%H:%M:%SZ} {self.label} {self.plain_text}"

    def as_dict(self) -> dict[str, Any]:
        """Return the line for ``--json`` output, the text as it was written."""
        at = self.at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return {
            "at": at,
            "run": self.run,
            "group": self.group,
            "host": self.host,
            "level": self.level,
            "text": self.text,
        }


class ClusterLogs(Sequence[LogLine]):
    """Lines of a cluster's logs, oldest first.

    Parameters
    ----------
    cluster
        The cluster's name.
    lines
        The lines.
    """

    def __init__(self, cluster: str, lines: Iterable[LogLine]) -> None:
        self.cluster = cluster
        self._lines = tuple(lines)

    @overload
    def __getitem__(self, index: int) -> LogLine: ...

    @overload
    def __getitem__(self, index: slice) -> ClusterLogs: ...

    def __getitem__(self, index: int | slice) -> LogLine | ClusterLogs:
        if isinstance(index, slice):
            return ClusterLogs(self.cluster, self._lines[index])
        return self._lines[index]

    def __len__(self) -> int:
        return len(self._lines)

    def by_host(self) -> dict[str, ClusterLogs]:
        """Return the lines of each host: instance id -> its lines."""
        found: dict[str, list[LogLine]] = {}
        for line in self._lines:
            found.setdefault(line.host, []).append(line)
        return {host: ClusterLogs(self.cluster, lines) for host, lines in found.items()}

    def __str__(self) -> str:
        return "\n".join(map(str, self._lines))

    def __repr__(self) -> str:
        return f"ClusterLogs({self.cluster!r}, {self._summary()})"

    def _repr_html_(self) -> str:
        shown = self._lines[-_SHOWN_LINES:]
        left_out = len(self._lines) - len(shown)
        heading = f"Logs of {self.cluster}: {self._summary()}"
        if left_out:
            heading += f"; the newest {len(shown)} are shown"
        text = "\n".join(map(str, shown))
        return (
            f"<details open><summary>{html.escape(heading)}</summary>"
            f'<pre style="max-height: 30em; overflow: auto">{html.escape(text)}</pre></details>'
        )

    def _summary(self) -> str:
        if not self._lines:
            return "no lines"
        hosts, runs = {line.host for line in self._lines}, {line.run for line in self._lines}
        begin, end = self._lines[0].at, self._lines[-1].at
        named = next(iter(runs)) if len(runs) == 1 else None
        parts = [
            f"run {named}" if named else f"{len(runs)} runs",
            counted(len(self._lines), "line"),
            counted(len(hosts), "host"),
            f"{begin:%Y-%m-%d %H:%M:%SZ} to {end:%Y-%m-%d %H:%M:%SZ}",
        ]
        return ", ".join(parts)
