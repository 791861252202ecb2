"""Show progress events on standard error: a live line on a terminal, else a line for each phase."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from terradask._common.clock import age_text
from terradask.cli._output import end_waiting, message, plain, styled

if TYPE_CHECKING:
    from rich.status import Status

    from terradask._common.progress import ProgressEvent

#: Interval of an apply's progress lines without a terminal: CI ends jobs without output.
_HEARTBEAT_SECONDS = 10.0


class ProgressLines:
    """Show progress events, with a live line inside `live`."""

    def __init__(self) -> None:
        self._status: Status | None = None
        self._printed_at = time.monotonic()

    def __call__(self, event: ProgressEvent) -> None:
        """Show one event."""
        from terradask._common.progress import (
            Message,
            PhaseFinished,
            PhaseStarted,
            ResourceChanged,
            Warned,
        )

        match event:
            case PhaseStarted(phase, subject):
                self._show_current(f"{subject}: {phase}")
            case PhaseFinished(phase, subject, seconds, failed, interrupted):
                mark = styled("failed", fg="red") if failed else styled("done", fg="green")
                if interrupted:
                    mark = styled("interrupted", fg="yellow")
                self._line(
                    f"{subject}: {phase:<11} ", mark, f"  {age_text(seconds, tenths=True):>7}"
                )
            case ResourceChanged(subject, address, action, "failed"):
                self._line(f"{subject}: {action} {address} ", styled("failed", fg="red"))
            case ResourceChanged(subject, address, action, "interrupted"):
                self._line(f"{subject}: {action} {address} ", styled("interrupted", fg="yellow"))
            case ResourceChanged(subject, address, action, _, done, total):
                self._show_current(f"{subject}: {done}/{total} {action} {address}")
            case Message(text):
                self._line(text)
            case Warned(text):
                self._line(styled("warning", fg="yellow"), f": {text}")

    def _line(self, *parts: str) -> None:
        if self._status is not None:
            from rich.text import Text

            self._status.console.print(Text.from_ansi(plain("  ", *parts)), soft_wrap=True)
        else:
            message("  ", *parts)
        self._printed_at = time.monotonic()

    def _show_current(self, text: str) -> None:
        if self._status is not None:
            from rich.text import Text

            # As text: an address has brackets, which would be markup.
            self._status.update(Text(plain(text)))
        elif time.monotonic() - self._printed_at > _HEARTBEAT_SECONDS:
            self._line(f"{text} ...")

    @contextlib.contextmanager
    def live(self) -> Iterator[None]:
        """Show the live line during the block; leave the block to ask questions."""
        if not sys.stderr.isatty():
            yield
            return
        end_waiting()
        from rich.console import Console

        with Console(stderr=True, highlight=False).status("", spinner="dots") as status:
            self._status = status
            try:
                yield
            finally:
                self._status = None


def show_kept(event: ProgressEvent) -> None:
    """Print warnings, and messages that stay."""
    from terradask._common.progress import Message, Warned

    if isinstance(event, Warned) or (isinstance(event, Message) and event.kept):
        message(event.text)
