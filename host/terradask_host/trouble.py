"""What goes wrong at each of many tries: a line in the log when it changes, and not at each try."""

from __future__ import annotations

from collections.abc import Callable


class Trouble:
    """Logs what is noted, unless it is what was noted last."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log
        self._last: str | None = None

    def note(self, text: str) -> None:
        """Log a trouble, if it is another one."""
        if text != self._last:
            self._log(text)
        self._last = text

    def is_over(self) -> None:
        """Note that all is well: the same trouble would be a new one."""
        self._last = None
