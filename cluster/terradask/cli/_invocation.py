"""What one call of the command line knows: how to speak, what an interruption leaves."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from terradask._common.progress import Progress
    from terradask._workspace.workspace import Workspace

Function = TypeVar("Function", bound=Callable[..., Any])

#: Where a context's ``meta`` holds the folder that ``-C`` named.
FOLDER = "terradask.folder"


@dataclass
class Invocation:
    """One call of the command line."""

    #: Show tracebacks.
    debug: bool = False
    #: The result, or the error, is one JSON document.
    as_json: bool = False
    #: What to do about whatever is left when the user interrupts now; None where nothing is.
    after_interrupt: str | None = None
    #: The signal that interrupts.
    ended_by: int = signal.SIGINT


def of(ctx: click.Context) -> Invocation:
    """Return the invocation that a click context belongs to."""
    return ctx.ensure_object(Invocation)


def current() -> Invocation:
    """Return the invocation that is running."""
    return of(click.get_current_context())


def load_workspace(progress: Progress | None = None) -> Workspace:
    """Return the workspace of the folder that the command works in."""
    from terradask._workspace.workspace import Workspace

    return Workspace.load(progress=progress)


#: Adds ``--json``; an error of the command is then JSON too.
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
yes_option = click.option("--yes", "-y", is_flag=True, help="Don't ask.")


def with_options(*options: Callable[[Function], Function]) -> Callable[[Function], Function]:
    """Add options that several commands have, in this order."""
    return lambda function: reduce(lambda inner, add: add(inner), reversed(options), function)


def format_option(purpose: str) -> Callable[[Function], Function]:
    """Add ``--format``, where markdown is for some purpose."""
    return click.option(
        "--format",
        "form",
        type=click.Choice(["terminal", "markdown", "json"]),
        default="terminal",
        show_default=True,
        help=f"How to show it; markdown is for {purpose}.",
    )


@contextlib.contextmanager
def interruption(advice: str) -> Iterator[None]:
    """Say what to do about what is left, should the user interrupt inside of this block."""
    invocation = current()
    before, invocation.after_interrupt = invocation.after_interrupt, advice
    yield
    # Not in a `finally`: the advice has to outlive the interruption that it is about.
    invocation.after_interrupt = before
