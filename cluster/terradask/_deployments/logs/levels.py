"""The levels of log lines, by the formats of Dask's and Python's logging. Pure."""

from __future__ import annotations

import re
from typing import Literal, get_args

from terradask.errors import InvalidInput

Level = Literal["debug", "info", "warning", "error", "critical"]
LEVELS: tuple[Level, ...] = get_args(Level)

_WORDS = {
    "DEBUG": "debug",
    "INFO": "info",
    "WARNING": "warning",
    "WARN": "warning",
    "ERROR": "error",
    "CRITICAL": "critical",
    "FATAL": "critical",
}
_WORD = "|".join(_WORDS)
#: `2026-11-24 08:00:00,123 - distributed.worker - WARNING - …`, as Dask writes it, and close
#: relatives; `WARNING:root:…`, as Python does; `terradask-host: ERROR: …`.
_FORMATS = (
    re.compile(rf"\d{{4}}-\d\d-\d\d[T ][\d:,.Z+]+ .{{0,120}}?\b({_WORD})\b", re.ASCII),
    re.compile(rf"\[?({_WORD})\]?\s?[:|-]", re.ASCII),
    re.compile(rf"(?:terradask-(?:host|boot)|cloud-init): ({_WORD}):", re.ASCII),
)
_OWN = ("terradask-host: ", "terradask-boot: ")
_TRACEBACK = "Traceback (most recent call last):"
#: Lines that go on with the message before them, beside indented ones: of tracebacks, and Dask's
#: `Key:`, `Task:`, … of a task that failed.
_GOES_ON = re.compile(
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
    """Return the level that a line itself names; None if it names none."""
    for form in _FORMATS:
        if found := form.match(text):
            level = _WORDS[found[1]]
            return next(known for known in LEVELS if known == level)
    return "info" if text.startswith(_OWN) else None


class Leveller:
    """Gives each host's lines their levels: lines that go on with a message, such as a traceback's,
    have the message's.
    """

    def __init__(self) -> None:
        #: Host -> the level of the message that may go on, and whether its last line was indented.
        self._messages: dict[str, tuple[Level | None, bool]] = {}

    def level_of(self, host: str, text: str) -> Level | None:
        """Return the level of a host's next line; None for what tasks print."""
        level = own_level(text)
        before, was_indented = self._messages.get(host, (None, False))
        is_indented = text.startswith((" ", "\t"))
        if level is None and text.startswith(_TRACEBACK):
            # Written by something else than a logger, if no message came before.
            level = before or "error"
        elif level is None and (is_indented or was_indented or _GOES_ON.match(text)):
            # What follows indented lines ends the traceback: the exception itself.
            level = before
        self._messages[host] = (level, is_indented)
        return level


def is_at_least(level: Level | None, least: Level) -> bool:
    """Return whether a line's level is a given one, or more serious."""
    return level is not None and LEVELS.index(level) >= LEVELS.index(least)
