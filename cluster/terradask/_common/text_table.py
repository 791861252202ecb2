"""Format tables and durations as text. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table as text for people and ``awk``: no borders, no wrapping."""
    cells = [[_cell(value) for value in row] for row in rows]
    return "\n".join(columns([[head.upper() for head in heads], *cells]))


def columns(rows: Sequence[Sequence[str]], *, numbers_from: int | None = None) -> list[str]:
    """Return rows as lines of aligned columns, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = [
        str.ljust if numbers_from is None or at < numbers_from else str.rjust
        for at in range(len(widths))
    ]
    return [
        "  ".join(
            side(cell, width) for side, cell, width in zip(sides, row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def _cell(value: object) -> str:
    return "-" if value is None or value == "" else str(value)


def duration(seconds: float) -> str:
    """Return a duration in one unit, such as ``3 min``."""
    whole = max(0, int(seconds))
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if whole >= 2 * length:
            return f"{whole // length} {unit}"
    return f"{whole} s"


def shortened(text: str, most: int = 80) -> str:
    """Return the beginning of a text, for one line of a table."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
