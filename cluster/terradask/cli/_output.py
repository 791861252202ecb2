"""Print results to standard output, and messages to standard error, without control characters."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, TextIO

import click

from terradask._common import text_table
from terradask._common.colour import painted
from terradask._common.text_table import duration
from terradask_host.documents import plain_text


class SafeText(str):
    """Text that is printed unchanged: its foreign parts have no control characters."""


def styled(text: str, **style: Any) -> SafeText:
    """Return coloured text, for `message` and `result`; without colours if ``NO_COLOR`` is set."""
    return SafeText(painted(plain_text(text), **style))


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table that fits the terminal; whole if standard output is none."""
    return text_table.table(heads, rows, width=_width())


def labelled(facts: Sequence[tuple[str, str | None]]) -> str:
    """Return facts with their labels, which fit the terminal, without those that are None."""
    return text_table.labelled(facts, width=_width())


def _width() -> int | None:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def plain(*parts: str) -> str:
    """Join parts to a text without control characters; keep those of `SafeText`."""
    return "".join(part if isinstance(part, SafeText) else plain_text(part) for part in parts)


def result(*parts: str) -> None:
    """Print a result, without control characters: documents, tags and names may contain some."""
    click.echo(plain(*parts))


def result_json(document: Any) -> None:
    """Print a result as one JSON document, in ASCII."""
    click.echo(json.dumps(document, indent=2, default=str))


def message(*parts: str) -> None:
    """Print a message to standard error, without control characters."""
    click.echo(plain(*parts), err=True)


def tolerate_encoding() -> None:
    """Have standard output replace characters that its encoding lacks, as that of files and pipes
    on Windows does, instead of failing. Standard error does so by itself.
    """
    stream = sys.stdout
    if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
        stream.reconfigure(errors="replace")


@contextlib.contextmanager
def until_closed(stream: TextIO) -> Iterator[None]:
    """End the block when the reader of a stream has closed, as ``| head`` does, and drop what is
    written to it later, such as Python's last flush.
    """
    try:
        yield
    except OSError as error:
        # Windows has no error of its own for it.
        is_closed = sys.platform == "win32" and error.errno == errno.EINVAL
        if not (is_closed or isinstance(error, BrokenPipeError)):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def ago(moment: str | datetime | None) -> str | None:
    """Return the age of a moment, such as ``3 min``."""
    if moment is None:
        return None
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment)
    return duration((datetime.now(UTC) - moment).total_seconds())


def caller_name(arn: str | None) -> str | None:
    """Return the caller's name in an ARN: the user, or the role with its session."""
    return None if arn is None else arn.rpartition(":")[2].partition("/")[2] or arn


def usd(hourly: Decimal | None) -> str | None:
    """Return an hourly price: ``?`` if unknown, None if zero."""
    if hourly is None:
        return "?"
    return f"{hourly:.4f}" if hourly else None
