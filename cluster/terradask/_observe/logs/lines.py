"""``LogLine`` and ``ClusterLogs``: log lines, their levels, and their display. No calls.

Tasks write most lines, so control characters are replaced for display: they could rewrite a
terminal's content or reverse the direction of text.
"""

from __future__ import annotations

import datetime
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args, overload

from terradask._common.naming import counted
from terradask._common.pages import html_page
from terradask.errors import InvalidInput
from terradask_host.documents import plain_lines, plain_text
from terradask_host.log_streams import BOOT_LINES, HOST_LINES, SERVES
from terradask_modules.names import SCHEDULER_GROUP

#: Levels of lines, by the formats of Dask's and Python's logging.
Level = Literal["debug", "info", "warning", "error", "critical"]
LEVELS: tuple[Level, ...] = get_args(Level)

_WORDS: dict[str, Level] = {
    "DEBUG": "debug",
    "INFO": "info",
    "WARNING": "warning",
    "WARN": "warning",
    "ERROR": "error",
    "CRITICAL": "critical",
    "FATAL": "critical",
}
_WORD = "|".join(_WORDS)
#: Dask's `2026-11-24 08:00:00,123 - distributed.worker - WARNING - …` and similar formats;
#: Python's `WARNING:root:…`; `terradask-host: ERROR: …`.
_FORMATS = (
    re.compile(rf"\d{{4}}-\d\d-\d\d[T ][\d:,.Z+]+ .{{0,120}}?\b({_WORD})\b", re.ASCII),
    re.compile(rf"\[?({_WORD})\]?\s?[:|-]", re.ASCII),
    re.compile(rf"(?:terradask-(?:host|boot)|cloud-init): ({_WORD}):", re.ASCII),
)
#: Of the host program and the boot script.
_OWN = BOOT_LINES[1:]
_TRACEBACK = "Traceback (most recent call last):"
#: Lines that continue the previous message, besides indented ones: of tracebacks, and Dask's
#: `Key:`, `Task:`, … of a failed task.
_CONTINUATION = re.compile(
    r"During handling of the above exception|The above exception was the direct cause"
    r"|[A-Za-z_][\w.]*(?:Error|Exception)\b|[A-Z][a-z]{1,20}:\s",
    re.ASCII,
)


def check_level(level: str) -> Level:
    """Return a level by its name, in any case. Raises `InvalidInput`."""
    for known in LEVELS:
        if known == level.lower():
            return known
    raise InvalidInput("There is no such level.", given=level, allowed=", ".join(LEVELS))


def own_level(text: str) -> Level | None:
    """Return the level in a line's text, or None."""
    for form in _FORMATS:
        if found := form.match(text):
            return _WORDS[found[1]]
    return "info" if text.startswith(_OWN) else None


class LineLevels:
    """Determine the levels of each host's lines: continuation lines, such as a traceback's, have
    their message's level.
    """

    def __init__(self) -> None:
        #: Host -> the level of its last message, and whether its last line was indented.
        self._messages: dict[str, tuple[Level | None, bool]] = {}

    def level_of(self, host: str, text: str) -> Level | None:
        """Return the level of a host's next line; None for tasks' output."""
        level = own_level(text)
        before, was_indented = self._messages.get(host, (None, False))
        is_indented = text.startswith((" ", "\t"))
        if level is None and text.startswith(_TRACEBACK):
            # Not from a logger, if there is no previous message.
            level = before or "error"
        elif level is None and (is_indented or was_indented or _CONTINUATION.match(text)):
            # The line after indented ones ends the traceback: the exception itself.
            level = before
        self._messages[host] = (level, is_indented)
        return level


def is_at_least(level: Level | None, least: Level) -> bool:
    """Return whether a line's level is a given one, or more serious."""
    return level is not None and LEVELS.index(level) >= LEVELS.index(least)


#: Most lines in a notebook, the newest.
_SHOWN_LINES = 1_000


@dataclass(frozen=True)
class LogLine:
    """One line of a host's log.

    Parameters
    ----------
    at
        Time at which the host wrote it, in UTC, by its own clock.
    host
        Instance id of the host.
    group
        Group of the host: ``scheduler``, ``workers``, a named group, each of workers also with
        ``-spot``.
    run
        Id of the host's run; None if the host didn't know it.
    level
        ``debug``, ``info``, ``warning``, ``error`` or ``critical``, by the formats of Dask's and
        Python's logging; None for a line without one, such as tasks' output.
    text
        The line as it was written, possibly with control characters by tasks; `str` removes them.
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
        return plain_text(f"{self.at:%Y-%m-%dT%H:%M:%SZ} {self.label} {self.plain_text}")

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
        return html_page("logs", heading=heading, text=text)

    def _summary(self) -> str:
        if not self._lines:
            return "no lines"
        hosts, runs = {line.host for line in self._lines}, {line.run for line in self._lines}
        begin, end = self._lines[0].at, self._lines[-1].at
        named = plain_text(str(next(iter(runs)) or "")) if len(runs) == 1 else None
        parts = [
            f"run {named}" if named else f"{len(runs)} runs",
            counted(len(self._lines), "line"),
            counted(len(hosts), "host"),
            f"{begin:%Y-%m-%d %H:%M:%SZ} to {end:%Y-%m-%d %H:%M:%SZ}",
        ]
        return ", ".join(parts)


# ---- what tasks print, what went wrong, and why a host isn't there -------------------------------


#: Dask's line that a worker serves: host programs of earlier versions write none of their own.
_REGISTERED = re.compile(r" - distributed\.worker - INFO - +Registered to: ", re.ASCII)

#: Most lines of a booting host that are kept, the newest.
_KEPT = 200
#: Seconds, by a host's own lines, after which its boot is slow.
_SLOW_SECONDS = 180


class SelectedLines:
    """Selects the lines of tasks, and warnings and errors; of a host that boots and doesn't get to
    serve Dask, all lines: at its error, after three minutes, or at the end.
    """

    def __init__(self) -> None:
        #: Number of lines that were left out.
        self.left_out = 0
        self._booting: dict[str, deque[LogLine]] = {}
        #: Host -> whether every line of it is shown.
        self._is_shown: dict[str, bool] = {}

    def __call__(self, lines: Iterable[LogLine]) -> Iterator[LogLine]:
        """Yield the selected lines; those of hosts that still boot at the end come last."""
        for line in lines:
            yield from self._next(line)
        for kept in self._booting.values():
            yield from kept
        self._booting.clear()

    def _next(self, line: LogLine) -> Iterator[LogLine]:
        host = line.host
        if host not in self._is_shown:
            # A host whose boot is before the first line has served.
            self._is_shown[host] = False
            if line.text.startswith(BOOT_LINES):
                self._booting[host] = deque(maxlen=_KEPT)
        kept = self._booting.get(host)
        if kept is None:
            if self._is_shown[host] or is_of_tasks(line):
                yield line
            else:
                self.left_out += 1
            if _serves(line):
                self._is_shown[host] = False
            return
        if _serves(line):
            found = [each for each in kept if is_of_tasks(each)]
            self.left_out += len(kept) - len(found) + 1
            del self._booting[host]
            yield from found
            return
        is_slow = kept and (line.at - kept[0].at).total_seconds() > _SLOW_SECONDS
        if is_slow or (line.level is not None and is_at_least(line.level, "error")):
            yield from self._booting.pop(host)
            self._is_shown[host] = True
            yield line
            return
        if len(kept) == kept.maxlen:
            self.left_out += 1
        kept.append(line)


def is_of_tasks(line: LogLine) -> bool:
    """Return whether a line is what a task prints, a warning or an error."""
    if line.level is None:
        return not line.text.startswith(BOOT_LINES)
    return is_at_least(line.level, "warning")


def _serves(line: LogLine) -> bool:
    text = line.text
    is_hosts = text.startswith(HOST_LINES) and text[len(HOST_LINES) :].startswith(SERVES)
    return is_hosts or _REGISTERED.search(text) is not None
