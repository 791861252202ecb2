"""Show errors of terradask with the lines of their user alone, by the hooks of Python and IPython.

Only what is shown is short: tracebacks stay whole, for debuggers, logs and test runners.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from functools import cache
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from traceback import FrameSummary, StackSummary, TracebackException

#: Set to anything but nothing or 0, it shows whole tracebacks, like the option ``--debug``.
DEBUG_VARIABLE = "TERRADASK_DEBUG"

#: Packages whose frames are left out, like those of libraries that they call.
_OWN = frozenset(
    {"dask", "distributed"}
    | {"terradask", "terradask_host", "terradask_modules", "terradask_stacks"}
)
#: Packages that run notebooks' cells.
_SHELLS = frozenset({"IPython", "ipykernel"})

_Error = TypeVar("_Error", bound=BaseException)

_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")


def plain(text: str) -> str:
    """Return a text without control characters, which could overwrite a terminal's other text.

    Errors may quote others' documents, tags or names.
    """
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else "\N{REPLACEMENT CHARACTER}"
        for letter in text
    )


def shows_all() -> bool:
    """Return whether the user wants whole tracebacks."""
    return os.environ.get(DEBUG_VARIABLE, "") not in ("", "0")


def is_shown_shortly(error: BaseException) -> bool:
    """Return whether an error has a short form: terradask's errors, and those of
    `shown_shortly`.
    """
    own = vars(error).get("_render_traceback_")
    return getattr(type(error), "_is_shown_shortly", False) or isinstance(own, _Renderer)


def shown_shortly(error: _Error) -> _Error:
    """Return an error of Python's own that has a short form too, by IPython's hook of this one."""
    error._render_traceback_ = _Renderer()  # type: ignore[attr-defined]
    return error


# ---- the user's frames ---------------------------------------------------------------------------


@cache
def _folders() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the folders of Python's library and those of installed packages."""
    paths = sysconfig.get_paths()
    installed = {paths["purelib"], paths["platlib"]}
    library = {paths["stdlib"], paths["platstdlib"]}
    return (
        ("<frozen ", *(f"{each}{os.sep}" for each in sorted(library))),
        tuple(f"{each}{os.sep}" for each in sorted(installed)),
    )


def _root(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _entries(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def users_entries(traceback: TracebackType | None) -> list[bool]:
    """Return for each entry whether it is the user's: none of terradask's, Dask's or Python's own,
    and none of an installed package that these have called. All are, if none is.
    """
    library, installed = _folders()
    inside, found = False, []
    for entry in _entries(traceback):
        name = entry.tb_frame.f_code.co_filename
        own = _root(entry.tb_frame) in _OWN
        inside = inside or own
        is_installed = name.startswith(installed)
        others = _root(entry.tb_frame) in _SHELLS or (name.startswith(library) and not is_installed)
        found.append(not (own or others or (inside and is_installed)))
    return found if any(found) else [True] * len(found)


def _cut(traceback: TracebackType | None, kept: Sequence[bool]) -> TracebackType | None:
    """Return a copy of a traceback with these entries."""
    shown: TracebackType | None = None
    for entry, is_kept in reversed(list(zip(_entries(traceback), kept, strict=True))):
        if is_kept:
            shown = TracebackType(shown, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return shown


def _left_out(traceback: TracebackType | None, kept: Sequence[bool]) -> int:
    """Return the number of left out entries, without those that run a notebook's cell."""
    shells = [_root(entry.tb_frame) in _SHELLS for entry in _entries(traceback)]
    return sum(not one and not shell for one, shell in zip(kept, shells, strict=True))


def _is_inner(error: BaseException | None) -> bool:
    """Return whether an error was caught inside terradask or Dask."""
    traceback = None if error is None else error.__traceback__
    return traceback is not None and _root(traceback.tb_frame) in _OWN


def _cause(error: Any) -> Any:
    """Return what Python shows before an error, or before Python's own form of one."""
    return error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _outer_cause(error: BaseException) -> tuple[BaseException | None, int]:
    """Return the first error of the chain that wasn't caught inside terradask or Dask, and how many
    are between it and this one.
    """
    between, cause = 0, _cause(error)
    while cause is not None and _is_inner(cause):
        between, cause = between + 1, _cause(cause)
    return cause, between


# ---- Python: scripts and the REPL ----------------------------------------------------------------


def show_uncaught() -> None:
    """Show uncaught errors of terradask shortly, unless the program has set `sys.excepthook`."""
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _show


def _show(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None, /
) -> None:
    try:
        text = short_text(kind, error, traceback)
    except Exception:  # noqa: BLE001  the error itself must be shown, whatever hinders its short form
        text = None
    if text is None or sys.stderr is None:
        sys.__excepthook__(kind, error, traceback)
    else:
        sys.stderr.write(text)
        sys.stderr.flush()


def short_text(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> str | None:
    """Return an error as Python would show it, without frames of libraries in those errors of its
    chain and its groups that have a short form; None if there is none.

    It has no control characters. With `DEBUG_VARIABLE`, all frames are in it.
    """
    from traceback import TracebackException

    if not any(is_shown_shortly(each) for each in _all_in(error, set())):
        return None
    if not shows_all() and is_interrupted(error):
        return f"{_interrupted_text(error)}\n"
    shown = TracebackException(kind, error, traceback, compact=True)
    if not shows_all():
        _shorten(shown, error, traceback)
    return plain("".join(shown.format()))


def _all_in(error: BaseException | None, seen: set[int]) -> Iterator[BaseException]:
    """Yield an error, those of its group, and their causes."""
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    yield error
    members = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    for each in (error.__cause__, error.__context__, *members):
        yield from _all_in(each, seen)


def _shorten(
    shown: TracebackException, error: BaseException, traceback: TracebackType | None
) -> None:
    if is_shown_shortly(error):
        kept = users_entries(traceback)
        # Recursion may have made fewer lines than entries, which Python shows as it does.
        if len(kept) == len(shown.stack):
            frames = [frame for frame, is_kept in zip(shown.stack, kept, strict=True) if is_kept]
            shown.stack = _stack(frames, _left_out(traceback, kept))
        outer, between = _outer_cause(error)
        if outer is None:
            shown.__cause__ = shown.__context__ = None
            return
        if between:
            before = _cause(shown)
            for _ in range(between):
                before = before and _cause(before)
            shown.__cause__, shown.__context__ = None, before
            shown.__suppress_context__ = False
            if before is not None:
                _shorten(before, outer, outer.__traceback__)
            return
    members = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    for inner, one in (
        (shown.__cause__, error.__cause__),
        (shown.__context__, error.__context__),
        *zip(getattr(shown, "exceptions", None) or (), members, strict=False),
    ):
        if inner is not None and one is not None:
            _shorten(inner, one, one.__traceback__)


def _stack(frames: list[FrameSummary], left_out: int) -> StackSummary:
    from traceback import StackSummary

    class Shortened(StackSummary):
        """Frames, and the number of those that aren't there."""

        def format(self, **options: Any) -> list[str]:
            hint = f"  ({_frames(left_out)} left out; {DEBUG_VARIABLE}=1 shows all)\n"
            return [*super().format(**options), *([hint] if left_out else [])]

    return Shortened(frames)


def _frames(number: int) -> str:
    return f"{number} frame{'' if number == 1 else 's'} of libraries"


# ---- IPython: notebooks and its terminal ---------------------------------------------------------


def render_in_ipython(error: BaseException) -> list[str]:
    """Return the lines that IPython shows of an error, in the user's mode and colours.

    ``%tb`` and the mode Verbose show all frames, and so does `DEBUG_VARIABLE`.
    """
    # IPython is not required: it calls this.
    formatter = sys.modules["IPython"].get_ipython().InteractiveTB
    whole = shows_all() or formatter.mode == "Verbose" or sys.exc_info()[1] is not error
    if not whole and is_interrupted(error):
        return _interrupted_text(error).splitlines()
    if whole:
        lines = _formatted(formatter, error, error, error.__traceback__, formatter.tb_offset)
    else:
        traceback = error.__traceback__
        kept = users_entries(traceback)
        lines = _formatted(formatter, error, _alone(error), _cut(traceback, kept), 0)
        left_out = _left_out(traceback, kept)
        if left_out and formatter.mode != "Minimal":
            lines.insert(len(lines) - 1, f"({_frames(left_out)} left out; %tb shows all)\n")
    return [_without_movement(line) for line in lines]


def _formatted(
    formatter: Any,
    error: BaseException,
    shown: BaseException,
    traceback: TracebackType | None,
    tb_offset: int,
) -> list[str]:
    try:
        found = formatter.structured_traceback(type(error), shown, traceback, tb_offset=tb_offset)
        return list(found)
    finally:
        # Older versions debug the traceback that they have shown last.
        formatter.tb = error.__traceback__


def _alone(error: BaseException) -> BaseException:
    """Return a copy of an error without the causes that were caught inside libraries."""
    from copy import copy

    shown, (outer, _) = copy(error), _outer_cause(error)
    shown.__context__, shown.__cause__ = outer, outer if outer is error.__cause__ else None
    shown.__suppress_context__ = outer is None
    return shown


def _without_movement(text: str) -> str:
    """Return a text whose only control characters are colours."""
    return "".join(
        part if index % 2 else plain(part) for index, part in enumerate(_COLOUR.split(text))
    )


# ---- interruptions -------------------------------------------------------------------------------


def explain_interrupt(error: BaseException, taken_back: str, left: str) -> None:
    """Add notes to a Ctrl-C: what was taken back, and what is left with the command for it; then it
    is shown as these two lines. The first explanation stays.
    """
    if type(error) is KeyboardInterrupt and not is_interrupted(error):
        for note in (plain(taken_back), f"left: {plain(left)}"):
            error.add_note(note)
        # Python ends by the signal only for this class, not for one below it.
        shown_shortly(error)


def is_interrupted(error: BaseException) -> bool:
    """Return whether an error is a Ctrl-C with an explanation."""
    return isinstance(error, KeyboardInterrupt) and is_shown_shortly(error)


class _Renderer:
    """IPython's hook of one error, which is being handled or was the last one: it pickles."""

    def __call__(self) -> list[str]:
        error = sys.exc_info()[1] or getattr(sys, "last_value", None)
        assert error is not None
        return render_in_ipython(error)


def _interrupted_text(error: BaseException) -> str:
    notes: list[str] = list(getattr(error, "__notes__", ()))
    before = error.__cause__
    lines = [f"interrupted: {notes[0]}", *(f"  {note}" for note in notes[1:])]
    if before is not None:
        lines.append(f"  before that: {type(before).__name__}: {before}")
    return plain("\n".join(lines))
