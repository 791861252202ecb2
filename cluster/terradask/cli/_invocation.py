"""``Invocation``: options and state of one call of the command line, and helpers that read it
(shared options, answers, questions).
"""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, TypeVar

import click

from terradask.cli._output import end_waiting, message, plain, result, result_json
from terradask_modules.errors import InvalidInput, TerradaskError
from terradask_modules.tracebacks import shows_all

if TYPE_CHECKING:
    from terradask._common.progress import Progress
    from terradask._workspace.workspace import Workspace


Function = TypeVar("Function", bound=Callable[..., Any])

#: Key of the folder of ``-C`` in a context's ``meta``.
FOLDER = "terradask.folder"


@dataclass
class Invocation:
    """One call of the command line."""

    #: Show tracebacks.
    debug: bool = field(default_factory=shows_all)
    #: Print the result, or the error, as one JSON document.
    as_json: bool = False
    #: Answer every question with yes.
    yes: bool = False
    #: Advice about remaining resources after an interruption at this moment, if any.
    after_interrupt: str | None = None
    #: The interrupting signal.
    ended_by: int = signal.SIGINT


def invocation_of(ctx: click.Context) -> Invocation:
    """Return the invocation of a click context."""
    return ctx.ensure_object(Invocation)


def current() -> Invocation:
    """Return the running invocation."""
    return invocation_of(click.get_current_context())


def load_workspace(progress: Progress | None = None, offer: str | None = None) -> Workspace:
    """Load the workspace of the command's folder, with an offer for clusters of the command."""
    from terradask._workspace.workspace import Workspace

    given: dict[str, Any] = {} if offer is None else {"cluster": {"offer": offer}}
    return Workspace.load(progress=progress, **given)


def report_missing_rights(workspace: Workspace) -> list[dict[str, Any]]:
    """Print what the command lacks because AWS has refused it; return it for ``--json``."""
    from terradask._workspace.missing_rights import missing_rights

    found = missing_rights(workspace._context)
    for one in found:
        message(str(one))
    return [one.as_dict() for one in found]


def _store(ctx: click.Context, parameter: click.Parameter, given: bool) -> None:
    setattr(invocation_of(ctx), str(parameter.name), given)


#: Adds a boolean option.
flag = partial(click.option, is_flag=True)
_stored_option = partial(flag, expose_value=False, callback=_store)
#: Adds ``--json`` for results of `answer`; errors are then JSON too.
json_option = _stored_option("--json", "as_json", help="Print JSON.")
#: Adds ``--yes``, which `confirm` reads.
yes_option = _stored_option("--yes", "-y", help="Don't ask.")


def answer(document: Any, text: str | None = None, otherwise: str | None = None) -> None:
    """Print a command's result: with ``--json`` the document, else the text; without a text, print
    `otherwise` as a message.
    """
    if current().as_json:
        result_json(document)
    elif text is not None:
        result(text)
    elif otherwise is not None:
        message(otherwise)


def with_options(*options: Callable[[Function], Function]) -> Callable[[Function], Function]:
    """Add shared options, in this order."""
    return lambda function: reduce(lambda inner, add: add(inner), reversed(options), function)


#: Adds both, to commands that ask before they change anything.
asking_options = with_options(yes_option, json_option)


def format_option(purpose: str) -> Callable[[Function], Function]:
    """Add ``--format``; `purpose` describes the use of markdown."""
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
    """Print advice about remaining resources if the user interrupts inside this block."""
    invocation = current()
    before, invocation.after_interrupt = invocation.after_interrupt, advice
    yield
    # Not in a `finally`: the advice must outlive the interruption.
    invocation.after_interrupt = before


# ---- questions before a change -------------------------------------------------------------------


def check_answerable(verb: str) -> None:
    """Fail before the work if no terminal can answer the later question."""
    if not current().yes and not sys.stdin.isatty():
        raise InvalidInput(
            f"{verb} asks before it changes anything, but standard input is not a terminal",
            allowed="a terminal, or --yes",
            advice=f"check its effect, then run terradask {verb} with --yes",
        )


def confirm(question: str) -> None:
    """Ask before a change, unless ``--yes`` answers; raise an error after no."""
    end_waiting()
    if not current().yes and not click.confirm(plain(question), err=True):
        raise TerradaskError("declined: nothing was changed")
