"""``SelectedLines``: what tasks print, what went wrong, and why a host isn't there. No calls."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator

from terradask._observe.logs.lines import LogLine, is_at_least
from terradask_host.log_streams import BOOT_LINES, HOST_LINES, SERVES

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
