"""How the commands speak: results to standard output, the story to standard error."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import click


def result(text: str) -> None:
    """Print a result."""
    click.echo(text)


def result_json(document: Any) -> None:
    """Print a result as one JSON document."""
    click.echo(json.dumps(document, indent=2, default=str))


def say(text: str) -> None:
    """Print a line of the story."""
    click.echo(text, err=True)


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table as text that a person and ``awk`` read alike: no borders, no wrapping."""
    cells = [[head.upper() for head in heads], *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(heads))]
    return "\n".join(
        "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells
    )


def _cell(value: object) -> str:
    return "-" if value is None or value == "" else str(value)


def ago(moment: str | datetime | None) -> str | None:
    """Return how long ago a moment was, such as ``3 min``."""
    if moment is None:
        return None
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment)
    return duration((datetime.now(UTC) - moment).total_seconds())


def duration(seconds: float) -> str:
    """Return a length of time in one unit, such as ``3 min``."""
    whole = max(0, int(seconds))
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if whole >= 2 * length:
            return f"{whole // length} {unit}"
    return f"{whole} s"


def usd(hourly: Decimal | None) -> str | None:
    """Return a price by the hour: ``?`` where it isn't known, nothing where nothing costs."""
    if hourly is None:
        return "?"
    return f"{hourly:.4f}" if hourly else None
