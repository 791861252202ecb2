"""A switch that was turned."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

__all__ = ["Switched"]


class Switched:
    """A switch that was turned; as a context manager it turns it back at the end of the block.

    Parameters
    ----------
    undo
        Turns it back.
    """

    def __init__(self, undo: Callable[[], object]) -> None:
        self._undo = undo

    def __enter__(self) -> None:
        """Leave the switch as it was turned."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Turn it back."""
        self._undo()
