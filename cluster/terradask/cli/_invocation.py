"""What one call of the command line knows: how to speak, what an interruption leaves."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, TypeVar

import click

from terradask.cli._output import plain, result, result_json, say
from terradask_modules.errors import InvalidInput, TerradaskError

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
    #: The user has answered every question with yes.
    yes: bool = False
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


def _noted(ctx: click.Context, parameter: click.Parameter, given: bool) -> None:
    setattr(of(ctx), str(parameter.name), given)


#: Adds an option that is given or not.
flag = partial(click.option, is_flag=True)
_noted_option = partial(flag, expose_value=False, callback=_noted)
#: Adds ``--json`` for what is shown by `answer`; an error of the command is then JSON too.
json_option = _noted_option("--json", "as_json", help="Print JSON.")
#: Adds ``--yes``, which `confirm` looks at.
yes_option = _noted_option("--yes", "-y", help="Don't ask.")


def answer(document: Any, text: str | None = None, otherwise: str | None = None) -> None:
    """Print what a command has found: with ``--json`` as a document, else as a text; where there is
    none, say what stands in for it.
    """
    if current().as_json:
        result_json(document)
    elif text is not None:
        result(text)
    elif otherwise is not None:
        say(otherwise)


def with_options(*options: Callable[[Function], Function]) -> Callable[[Function], Function]:
    """Add options that several commands have, in this order."""
    return lambda function: reduce(lambda inner, add: add(inner), reversed(options), function)


#: Adds both, to commands that ask before they change anything.
asking_options = with_options(yes_option, json_option)


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


# ---- questions before something is changed -------------------------------------------------------


def check_answerable(verb: str) -> None:
    """Refuse before the work, where no terminal could answer the question after it."""
    if not current().yes and not sys.stdin.isatty():
        raise InvalidInput(
            f"{verb} asks before it changes anything, but standard input is not a terminal",
            allowed="a terminal, or --yes",
            advice=f"check what it would do, then run terradask {verb} with --yes",
        )


def confirm(question: str) -> None:
    """Ask before something is changed, unless ``--yes`` answers; after no, raise an error."""
    if not current().yes and not click.confirm(plain(question), err=True):
        raise TerradaskError("declined: nothing was changed")
