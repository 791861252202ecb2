"""Print results to standard output, and messages to standard error, without control characters."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, TextIO

import click

from terradask._common import text_table
from terradask._common.clock import age_text, duration
from terradask._common.colour import painted
from terradask._common.dollars import usd_text
from terradask_host.documents import plain_text

#: Seconds without output after which a terminal shows what is waited for.
_WAITING_SECONDS = 1.0


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


def wrapped(text: str) -> str:
    """Return a line broken between words where the terminal ends."""
    width = _width()
    if width is None:
        return text
    lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


def _width() -> int | None:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def plain(*parts: str) -> str:
    """Join parts to a text without control characters; keep those of `SafeText`."""
    return "".join(part if isinstance(part, SafeText) else plain_text(part) for part in parts)


class _Waiting:
    """A line on a terminal with what is waited for and for how long, until something is printed."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._width = 0
        self._ended = threading.Event()
        self._drawing = threading.Lock()
        self._thread = threading.Thread(target=self._draw, name="waiting", daemon=True)
        self._thread.start()

    def _draw(self) -> None:
        began, pause = time.monotonic(), _WAITING_SECONDS
        while not self._ended.wait(pause):
            pause = 1.0
            line = f"{self._text} ... {age_text(time.monotonic() - began)}"
            line = line[: shutil.get_terminal_size().columns - 1]
            with self._drawing, contextlib.suppress(OSError, UnicodeError):
                if not self._ended.is_set():
                    self._write(f"\r{line}{' ' * (self._width - len(line))}")
                    self._width = len(line)

    def end(self) -> None:
        """Remove the line, for good."""
        with self._drawing, contextlib.suppress(OSError):
            self._ended.set()
            if self._width:
                self._write(f"\r{' ' * self._width}\r")
                self._width = 0

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


#: The line that is waiting to be removed, if any.
_waiting: list[_Waiting] = []


@contextlib.contextmanager
def waiting(text: str) -> Iterator[None]:
    """Show on a terminal what is waited for, once it takes longer than a second, until something
    is printed or the block ends. Also decorates a command that prints by this module.
    """
    if not sys.stderr.isatty():
        yield
        return
    line = _Waiting(text)
    _waiting.append(line)
    try:
        yield
    finally:
        line.end()
        _waiting.remove(line)


def end_waiting() -> None:
    """Remove the line of `waiting`, before something else writes to the terminal."""
    for line in _waiting:
        line.end()


def result(*parts: str) -> None:
    """Print a result, without control characters: documents, tags and names may contain some."""
    end_waiting()
    click.echo(plain(*parts))


def result_json(document: Any) -> None:
    """Print a result as one JSON document, in ASCII."""
    end_waiting()
    click.echo(json.dumps(document, indent=2, default=str))


def message(*parts: str) -> None:
    """Print a message to standard error, without control characters."""
    end_waiting()
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
    return usd_text(hourly) if hourly else None
