"""Names in messages."""

from __future__ import annotations

from collections.abc import Sequence


def counted(number: int, noun: str) -> str:
    """Return a number of things, ``1 host`` or ``1,200 hosts``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def some(names: Sequence[str], most: int) -> str:
    """Return as many names at most, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"
