"""Log of a repeated failure: one line when it changes, not at each try."""

from __future__ import annotations

import sys
from collections.abc import Callable


class Trouble:
    """Logs a failure, by default to standard error, unless it is the same as the last one."""

    def __init__(
        self, log: Callable[[str], None] = lambda line: print(line, file=sys.stderr)
    ) -> None:
        self._log = log
        self._last: str | None = None

    def note(self, text: str) -> None:
        """Log a failure, if it is a different one."""
        if text != self._last:
            self._log(text)
        self._last = text

    def is_over(self) -> None:
        """End the failure: the same one is logged again."""
        self._last = None
