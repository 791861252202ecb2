"""Report a lasting cause once."""

from __future__ import annotations

import logging
from collections.abc import Hashable


class OncePerCause:
    """Remembers reported causes until they are cleared."""

    def __init__(self) -> None:
        self._reported: set[Hashable] = set()

    def is_new(self, *causes: Hashable) -> bool:
        """Return whether any of these causes is new, and mark them as reported."""
        new = not self._reported.issuperset(causes)
        self._reported.update(causes)
        return new

    def level(self, cause: Hashable) -> int:
        """Return the level at which to log a cause: a warning if it is new."""
        return logging.WARNING if self.is_new(cause) else logging.DEBUG

    def clear(self) -> None:
        """Forget all causes: everything is well again."""
        self._reported.clear()
