"""Run one call of the command line, and turn errors into a message and an exit code."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any, Protocol, runtime_checkable

import click

from terradask.cli._app import command
from terradask.cli._invocation import Invocation
from terradask.cli._output import message, styled

#: Libraries whose errors contain AWS's answer.
_AWS_LIBRARIES = ("botocore", "boto3")

INTERRUPTED = 128 + signal.SIGINT


@runtime_checkable
class Explained(Protocol):
    """Interface of errors with a text for users: terradask's and the embedded AWS's."""

    problem: str
    exit_code: int

    def as_dict(self) -> dict[str, Any]:
        """Return the fields."""


@contextlib.contextmanager
def _signals(invocation: Invocation) -> Iterator[None]:
    """Handle SIGTERM and the terminal's end like Ctrl-C: the stack unwinds, cancels Terraform."""

    def terminate(number: int, _frame: FrameType | None) -> None:
        # Stored outside of the exception, which click replaces.
        invocation.ended_by = number
        raise KeyboardInterrupt

    # Windows has SIGBREAK for Ctrl-Break and a closed console, and SIGTERM from this process alone.
    if sys.platform == "win32":
        numbers = [signal.SIGTERM, signal.SIGBREAK]
    else:
        numbers = [signal.SIGTERM, signal.SIGHUP]
    # Respect an ignored SIGHUP (nohup).
    numbers = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    before = {number: signal.signal(number, terminate) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _report(invocation: Invocation, document: dict[str, Any], text: str) -> None:
    if invocation.as_json:
        click.echo(json.dumps(document, default=str), err=True)
    else:
        message(styled("error: ", fg="red", bold=True), text)


def _failed(invocation: Invocation, error: Exception) -> int:
    if invocation.debug:
        message("".join(traceback.format_exception(error)).removesuffix("\n"))
    if isinstance(error, Explained):
        if error.exit_code == INTERRUPTED:
            return _interrupted(invocation, error)
        notes = (f"  {note}" for note in getattr(error, "__notes__", ()))
        _report(invocation, error.as_dict(), "\n".join([str(error), *notes]))
        return error.exit_code
    problem = f"{type(error).__name__}: {error}"
    advice = (
        "an error of AWS: correct its cause, or try again later; --debug shows the call"
        if type(error).__module__.partition(".")[0] in _AWS_LIBRARIES
        else "this is a bug in terradask: run the command with --debug and report its output"
    )
    _report(
        invocation,
        {"error": "Unexpected", "problem": problem, "advice": advice},
        f"{problem}\n  to do: {advice}",
    )
    return 1


def _interrupted(invocation: Invocation, error: BaseException) -> int:
    # click replaces the interrupt; the original's notes report about a rollback.
    notes = [note for each in (error, error.__cause__) for note in getattr(each, "__notes__", ())]
    what, *left = notes or [error.problem if isinstance(error, Explained) else ""]
    advice = invocation.after_interrupt or getattr(error, "advice", None)
    if left:
        # They have the command already.
        advice = None
    problem = f"interrupted: {what}" if what else "interrupted"
    todo = [f"  to do: {advice}"] if advice else []
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        if invocation.as_json:
            text = "\n".join([problem, *left])
            document = {"error": "Interrupted", "problem": text, "advice": advice}
            click.echo(json.dumps(document), err=True)
        else:
            # click ends the terminal's line after an interrupt, but not after a question's.
            if isinstance(error, click.Abort) and error.__cause__ is None:
                message("")
            lines = [*(f"  {note}" for note in left), *todo]
            message(
                styled("interrupted", fg="yellow", bold=True), "\n".join([problem[11:], *lines])
            )
    finally:
        signal.signal(signal.SIGINT, before)
    return 128 + invocation.ended_by


def _wrong_usage(invocation: Invocation, error: click.ClickException) -> int:
    if invocation.as_json:
        _report(invocation, {"error": "Usage", "problem": error.format_message()}, "")
    else:
        error.show()
    return error.exit_code


def run(arguments: Sequence[str]) -> int:
    """Run the command line."""
    arguments = list(arguments)
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    # Read before click parses the arguments: usage errors are reported as JSON too.
    invocation = Invocation(as_json="--json" in own)
    try:
        with _signals(invocation):
            code = command.main(
                arguments, prog_name="terradask", standalone_mode=False, obj=invocation
            )
    # click's exception for Ctrl-C, and for a prompt without an answer.
    except (click.exceptions.Abort, KeyboardInterrupt) as error:
        return _interrupted(invocation, error)
    except click.ClickException as error:
        return _wrong_usage(invocation, error)
    except Exception as error:  # noqa: BLE001  # the one place where every error becomes a text
        return _failed(invocation, error)
    return code if isinstance(code, int) else 0
