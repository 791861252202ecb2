"""Format tables as text. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

#: Least width of a column of sentences.
_SENTENCES = 24
#: Width of the column of labels.
_LABEL = 10


def table(
    heads: Sequence[str], rows: Sequence[Sequence[object]], *, width: int | None = None
) -> str:
    """Return a table as text for people and ``awk``: no borders, no wrapping.

    With a `width`, the last column is broken between words, and columns before it are left out,
    which a last line names.
    """
    cells = [[head.upper() for head in heads], *([_cell(value) for value in row] for row in rows)]
    if width is None or not cells[0]:
        return "\n".join(columns(cells))
    kept = _kept(cells, width)
    lines = _broken([[row[at] for at in kept] for row in cells], width)
    left_out = [head for at, head in enumerate(cells[0]) if at not in kept]
    note = f"too narrow for {', '.join(left_out)}: --json has them" if left_out else ""
    return "\n".join([*lines, *textwrap.wrap(note, width)])


def labelled(facts: Sequence[tuple[str, str | None]], *, width: int | None = None) -> str:
    """Return facts with their labels, a line each, without those that are None.

    With a `width`, texts are broken between words, below their beginning.
    """
    lines = []
    for label, value in facts:
        if value is None:
            continue
        start = f"{label:<{_LABEL}} "
        lines += (
            [f"{start}{value}"]
            if width is None
            else textwrap.wrap(
                value,
                max(width, len(start) + _SENTENCES),
                initial_indent=start,
                subsequent_indent=" " * len(start),
                break_long_words=False,
                break_on_hyphens=False,
            )
            or [start.rstrip()]
        )
    return "\n".join(lines)


def _kept(cells: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return the columns that fit, without those before the last one, from the right."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    words = max(len(word) for row in cells for word in row[-1].split() or [""])
    widths[-1] = min(widths[-1], max(words, _SENTENCES))
    kept = list(range(len(widths)))
    while len(kept) > 2 and sum(widths[at] + 2 for at in kept) - 2 > width:
        del kept[-2]
    return kept


def _broken(cells: Sequence[Sequence[str]], width: int) -> list[str]:
    """Return lines whose last column is broken between words."""
    before = columns([row[:-1] for row in cells]) if len(cells[0]) > 1 else [""] * len(cells)
    start = max(map(len, before)) + 2 if len(cells[0]) > 1 else 0
    lines = []
    for line, row in zip(before, cells, strict=True):
        left = max(width - start, 1)
        parts = textwrap.wrap(row[-1], left, break_long_words=False, break_on_hyphens=False)
        first, *rest = parts or [""]
        lines.append(f"{line.ljust(start)}{first}".rstrip())
        lines += [f"{' ' * start}{part}" for part in rest]
    return lines


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


def shortened(text: str, most: int = 80) -> str:
    """Return the beginning of a text, for one line of a table."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
