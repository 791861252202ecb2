"""Saying something once, and not each time it is seen."""

from __future__ import annotations

import logging
from collections.abc import Hashable


class OncePerCause:
    """Remembers causes that were reported, until all is well again."""

    def __init__(self) -> None:
        self._reported: set[Hashable] = set()

    def is_new(self, *causes: Hashable) -> bool:
        """Return whether any of these causes wasn't reported yet, and take them as reported."""
        new = not self._reported.issuperset(causes)
        self._reported.update(causes)
        return new

    def level(self, cause: Hashable) -> int:
        """Return the level at which to log a cause: a warning where it is new."""
        return logging.WARNING if self.is_new(cause) else logging.DEBUG

    def clear(self) -> None:
        """Take note that all is well: every cause is new again."""
        self._reported.clear()
