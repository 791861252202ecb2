"""Show errors of terradask with the lines of their user alone, in notebooks and IPython's terminal.

IPython is not required: it calls this.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from functools import wraps
from traceback import TracebackException
from typing import Any

from terradask_modules.tracebacks import (
    all_in,
    cut,
    explain,
    frames_of_libraries,
    has_short_form,
    interrupted_text,
    is_shown_shortly,
    left_out,
    outer_cause,
    plain,
    short_text,
    shows_all,
    users_entries,
)

_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")
_SHOWS_ALL_BY = "%tb"


def show_in(shell: Any) -> None:
    """Let a shell of IPython also show errors shortly that have one of terradask's as their cause,
    or in their group, unless another function of it shows errors.

    IPython's hook of a class is asked only for the outermost error, and for no group.
    """
    if "showtraceback" in vars(shell):
        return
    of_ipython = shell.showtraceback

    @wraps(of_ipython)
    def showtraceback(exc_tuple: Any = None, *args: Any, **options: Any) -> None:
        lines = None
        with contextlib.suppress(Exception):
            # The error itself must be shown, whatever hinders its short form.
            kind, error, _ = shell._get_exc_info(exc_tuple)
            if not options.get("exception_only"):
                lines = _lines_of(shell.InteractiveTB, error)
        if lines is None:
            of_ipython(exc_tuple, *args, **options)
            return
        shell._showtraceback(kind, error, lines)
        if shell.call_pdb:
            shell.debugger(force=True)

    shell.showtraceback = showtraceback


def _lines_of(formatter: Any, error: BaseException) -> list[str] | None:
    """Return the lines of an error for which IPython asks no hook; None for all others."""
    whole = _is_whole(formatter, error)
    if not whole and (interrupted := interrupted_text(error)):
        return interrupted.splitlines()
    explain(error)
    if not has_short_form(error):
        return None
    if any(isinstance(each, BaseExceptionGroup) for each in all_in(error)):
        # IPython shows groups as Python does, and with %tb nothing of them.
        if whole:
            shown = TracebackException.from_exception(error).format()
            return plain("".join(shown)).splitlines()
        text = short_text(type(error), error, error.__traceback__, shows_all_by=_SHOWS_ALL_BY)
        return (text or "").splitlines()
    return None if whole or is_shown_shortly(error) else _short_lines(formatter, error)


def render_in_ipython(error: BaseException) -> list[str]:
    """Return the lines that IPython shows of an error, in the user's mode and colours.

    ``%tb`` and the mode Verbose show all frames, and so does `DEBUG_VARIABLE`.
    """
    formatter = sys.modules["IPython"].get_ipython().InteractiveTB
    if not _is_whole(formatter, error):
        if interrupted := interrupted_text(error):
            return interrupted.splitlines()
        return _short_lines(formatter, error)
    return [_without_movement(line) for line in _formatted(formatter, error, formatter.tb_offset)]


def _is_whole(formatter: Any, error: BaseException) -> bool:
    return shows_all() or formatter.mode == "Verbose" or sys.exc_info()[1] is not error


def _short_lines(formatter: Any, error: BaseException) -> list[str]:
    with _shortened(error) as number:
        is_own = is_shown_shortly(error)
        lines = _formatted(formatter, error, 0 if is_own else formatter.tb_offset)
    if number and formatter.mode != "Minimal":
        hint = f"({frames_of_libraries(number)} left out; {_SHOWS_ALL_BY} shows all)\n"
        lines.insert(len(lines) - 1, hint)
    return [_without_movement(line) for line in lines]


@contextlib.contextmanager
def _shortened(error: BaseException) -> Iterator[int]:
    """Take the frames of libraries, and causes that were caught inside them, from the errors of
    terradask in a chain while the block runs. Yields the number of frames.

    Not from copies: an error of the user's may not allow one.
    """
    before, number = [], 0
    for each in list(all_in(error)):
        if not is_shown_shortly(each):
            continue
        traceback, outer = each.__traceback__, outer_cause(each)[0]
        links = each.__cause__, each.__context__, each.__suppress_context__
        before.append((each, traceback, links))
        kept = users_entries(traceback)
        number += left_out(traceback, kept)
        each.__traceback__ = cut(traceback, kept)
        each.__cause__ = outer if outer is links[0] else None
        each.__context__, each.__suppress_context__ = outer, outer is None
    try:
        yield number
    finally:
        for each, traceback, (cause, context, suppressed) in before:
            each.__traceback__ = traceback
            each.__cause__, each.__context__ = cause, context
            each.__suppress_context__ = suppressed


def _formatted(formatter: Any, error: BaseException, tb_offset: int) -> list[str]:
    shown = error.__traceback__
    try:
        found = formatter.structured_traceback(type(error), error, shown, tb_offset=tb_offset)
        return list(found)
    finally:
        # Older versions debug the traceback that they have shown last.
        formatter.tb = error.__traceback__


def _without_movement(text: str) -> str:
    """Return a text whose only control characters are colours."""
    return "".join(
        part if index % 2 else plain(part) for index, part in enumerate(_COLOUR.split(text))
    )
