"""Names in messages."""

from __future__ import annotations

from collections.abc import Sequence


def some(names: Sequence[str], most: int) -> str:
    """Return as many names at most, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"
