"""Print a demo in steps, with times, and fail at a broken promise."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import click

from terradask._common.progress import (
    Message,
    PhaseFinished,
    PhaseStarted,
    ProgressEvent,
    ResourceChanged,
    Warned,
)
from terradask._doctor.account_check.steps import Step, StepResult
from terradask_modules.errors import TerradaskError


class DemoFailed(TerradaskError):
    """A step of the demo broke its promise."""

    def __init__(self, step: str, *, promised: str, found: Any) -> None:
        super().__init__(
            f"the demo's step {step!r} was not as promised: {promised}",
            given=found,
            advice="run it again with: terradask --debug demo",
        )
        self.step = step
        self.promised = promised
        self.found = found


class DemoPrinter:
    """Print the demo's steps, checks and progress."""

    def __init__(self, write: Callable[[str], None], now: Callable[[str], object] = str) -> None:
        self._write = write
        self._now = now
        self._began = time.monotonic()
        self._number = 0
        self._title = ""
        self._has_failed = False

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    def started(self, step: Step) -> None:
        """Print a step's title."""
        self._number += 1
        self._title = step.what
        self._write("")
        self._write(click.style(f"{self._number}. {step.what}", bold=True))

    def ended(self, result: StepResult) -> None:
        """Print a step's duration; errors after the first are only printed."""
        if result.cause is None:
            took = f"   {result.seconds:.1f} s; {self.seconds:.1f} s since the start"
            self._write(click.style(took, dim=True))
        elif self._has_failed:
            self.show(f"while removing everything: {result.cause}")
        self._has_failed = self._has_failed or result.cause is not None

    def show(self, text: str) -> None:
        """Print a text, indented."""
        for line in text.splitlines():
            self._write(f"   {line}".rstrip())

    def end(self, text: str) -> None:
        """Print the end."""
        self._write("")
        self._write(click.style(text, bold=True))

    def check(self, promise: str, kept: bool, found: Any = None) -> None:
        """Print a kept promise. Raises `DemoFailed` for a broken one."""
        if not kept:
            raise DemoFailed(self._title, promised=promise, found=found)
        self._write(f"   {click.style('ok', fg='green')} {promise}")

    def progress(self, event: ProgressEvent) -> None:
        """Print finished phases of a long operation, and its current phase on the moving line."""
        match event:
            case PhaseStarted(phase, subject):
                self._now(f"{subject}: {phase}")
            case ResourceChanged(subject, address, action, _, done, total):
                self._now(f"{subject}: {done}/{total} {action} {address}")
            case PhaseFinished(phase, subject, seconds, False):
                self._now("")
                self._write(click.style(f"   {subject}: {phase} {seconds:.1f} s", dim=True))
            case Message(text):
                self._write(click.style(f"   {text}", dim=True))
            case Warned(text):
                self._write(f"   warning: {text}")
            case _:
                pass
