"""How the commands speak: results to standard output, the story to standard error."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import click

from terradask._common.text_table import duration
from terradask_host.documents import plain_text


class Ready(str):
    """Text that a terminal gets as it is: all that others wrote in it is plain already."""


def styled(text: str, **style: Any) -> Ready:
    """Return text in a colour, for `say` and `result`."""
    return Ready(click.style(plain_text(text), **style))


def plain(*parts: str) -> str:
    """Return parts as one text without control characters, but for those that are ready."""
    return "".join(part if isinstance(part, Ready) else plain_text(part) for part in parts)


def result(*parts: str) -> None:
    """Print a result. Others wrote some of it, in documents, tags and names: no control character
    of theirs reaches a terminal.
    """
    click.echo(plain(*parts))


def result_json(document: Any) -> None:
    """Print a result as one JSON document, in ASCII."""
    click.echo(json.dumps(document, indent=2, default=str))


def say(*parts: str) -> None:
    """Print a line of the story, as `result` does."""
    click.echo(plain(*parts), err=True)


def ago(moment: str | datetime | None) -> str | None:
    """Return how long ago a moment was, such as ``3 min``."""
    if moment is None:
        return None
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment)
    return duration((datetime.now(UTC) - moment).total_seconds())


def shortened(text: str, most: int = 80) -> str:
    """Return the beginning of a text: a table's row is one line."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def caller_name(arn: str | None) -> str | None:
    """Return what names the caller in an ARN: the user, or the role with its session."""
    return None if arn is None else arn.rpartition(":")[2].partition("/")[2] or arn


def usd(hourly: Decimal | None) -> str | None:
    """Return a price by the hour: ``?`` where it isn't known, nothing where nothing costs."""
    if hourly is None:
        return "?"
    return f"{hourly:.4f}" if hourly else None
