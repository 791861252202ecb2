"""Split lists where a call takes only so many items."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def batches(items: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    """Yield the items in their order, at most so many at once."""
    for start in range(0, len(items), most):
        yield items[start : start + most]
