"""Tables and lengths of time as text. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table as text that a person and ``awk`` read alike: no borders, no wrapping."""
    cells = [[head.upper() for head in heads], *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(heads))]
    return "\n".join(
        "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells
    )


def _cell(value: object) -> str:
    return "-" if value is None or value == "" else str(value)


def duration(seconds: float) -> str:
    """Return a length of time in one unit, such as ``3 min``."""
    whole = max(0, int(seconds))
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if whole >= 2 * length:
            return f"{whole // length} {unit}"
    return f"{whole} s"
