"""The text of an error of terradask with the lines of its user alone, as Python would show it."""

from __future__ import annotations

import contextlib
import os
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from traceback import FrameSummary, StackSummary, TracebackException
from types import FrameType, TracebackType
from typing import Any

#: Set to anything but nothing or 0, it shows whole tracebacks, like the option ``--debug``.
DEBUG_VARIABLE = "TERRADASK_DEBUG"

#: Packages whose frames are left out, like those of libraries that they call.
_OWN = frozenset(
    {"dask", "distributed"}
    | {"terradask", "terradask_host", "terradask_modules", "terradask_stacks"}
)
#: Packages that run notebooks' cells.
SHELLS = frozenset({"IPython", "ipykernel"})


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
    """Return whether an error has a short form: terradask's errors, and those that are marked."""
    return getattr(type(error), "_is_shown_shortly", False) or "_is_shown_shortly" in vars(error)


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


def root_of(frame: FrameType) -> str:
    """Return the name of a frame's package."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def entries(traceback: TracebackType | None) -> Iterator[TracebackType]:
    """Yield a traceback's entries, the caller's first."""
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def users_entries(traceback: TracebackType | None) -> list[bool]:
    """Return for each entry whether it is the user's: none of terradask's, Dask's or Python's own,
    and none of an installed package that these have called. All are, if none is.
    """
    library, installed = _folders()
    inside, found = False, []
    for entry in entries(traceback):
        name = entry.tb_frame.f_code.co_filename
        own = root_of(entry.tb_frame) in _OWN
        inside = inside or own
        is_installed = name.startswith(installed)
        is_pythons = name.startswith(library) and not is_installed
        others = is_pythons or root_of(entry.tb_frame) in SHELLS
        found.append(not (own or others or (inside and is_installed)))
    return found if any(found) else [True] * len(found)


def cut(traceback: TracebackType | None, kept: Sequence[bool]) -> TracebackType | None:
    """Return a copy of a traceback with these entries."""
    shown: TracebackType | None = None
    for entry, is_kept in reversed(list(zip(entries(traceback), kept, strict=True))):
        if is_kept:
            shown = TracebackType(shown, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return shown


def left_out(traceback: TracebackType | None, kept: Sequence[bool]) -> int:
    """Return the number of left out entries, without those that run a notebook's cell."""
    shells = [root_of(entry.tb_frame) in SHELLS for entry in entries(traceback)]
    return sum(not one and not shell for one, shell in zip(kept, shells, strict=True))


def _is_inner(error: BaseException | None) -> bool:
    """Return whether an error was caught inside terradask or Dask."""
    traceback = None if error is None else error.__traceback__
    return traceback is not None and root_of(traceback.tb_frame) in _OWN


def _cause(error: Any) -> Any:
    """Return what Python shows before an error, or before Python's own form of one."""
    return error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def outer_cause(error: BaseException) -> tuple[BaseException | None, int]:
    """Return the first error of the chain that wasn't caught inside terradask or Dask, and how many
    are between it and this one.
    """
    between, cause = 0, _cause(error)
    while cause is not None and _is_inner(cause):
        between, cause = between + 1, _cause(cause)
    return cause, between


# ---- texts ---------------------------------------------------------------------------------------


#: Functions that add to others' errors before they are shown.
EXPLAINERS: list[Callable[[BaseException], None]] = []


def explain(error: BaseException) -> None:
    """Let `EXPLAINERS` add notes and a short form to an error that is about to be shown."""
    for each in EXPLAINERS:
        with contextlib.suppress(Exception):
            # The error itself must be shown, whatever hinders its explanation.
            each(error)


def short_text(
    kind: type[BaseException],
    error: BaseException,
    traceback: TracebackType | None,
    *,
    shows_all_by: str = f"{DEBUG_VARIABLE}=1",
) -> str | None:
    """Return an error as Python would show it, without frames of libraries in those errors of its
    chain and its groups that have a short form; None if there is none.

    It has no control characters. With `DEBUG_VARIABLE`, all frames are in it.
    """
    if not shows_all() and (interrupted := interrupted_text(error)):
        return f"{interrupted}\n"
    explain(error)
    if not has_short_form(error):
        return None
    shown = TracebackException(kind, error, traceback, compact=True)
    if not shows_all():
        _shorten(shown, error, traceback, shows_all_by)
    return plain("".join(shown.format()))


def has_short_form(error: BaseException) -> bool:
    """Return whether an error, its causes or its group include one that has a short form."""
    return any(is_shown_shortly(each) for each in all_in(error))


def all_in(error: BaseException | None, seen: set[int] | None = None) -> Iterator[BaseException]:
    """Yield an error, those of its group, and their causes."""
    seen = set() if seen is None else seen
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    yield error
    members = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    for each in (error.__cause__, error.__context__, *members):
        yield from all_in(each, seen)


def _shorten(
    shown: TracebackException,
    error: BaseException,
    traceback: TracebackType | None,
    shows_all_by: str,
) -> None:
    if is_shown_shortly(error):
        kept = users_entries(traceback)
        # Recursion may have made fewer lines than entries, which Python shows as it does.
        if len(kept) == len(shown.stack):
            frames = [frame for frame, is_kept in zip(shown.stack, kept, strict=True) if is_kept]
            shown.stack = _Shortened(frames, left_out(traceback, kept), shows_all_by)
        outer, between = outer_cause(error)
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
                _shorten(before, outer, outer.__traceback__, shows_all_by)
            return
    else:
        _leave_out_shell(shown, traceback)
    members = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    for inner, one in (
        (shown.__cause__, error.__cause__),
        (shown.__context__, error.__context__),
        *zip(getattr(shown, "exceptions", None) or (), members, strict=False),
    ):
        if inner is not None and one is not None:
            _shorten(inner, one, one.__traceback__, shows_all_by)


def _leave_out_shell(shown: TracebackException, traceback: TracebackType | None) -> None:
    """Leave out what runs a notebook's cell, as IPython does."""
    shells = [root_of(entry.tb_frame) in SHELLS for entry in entries(traceback)]
    if any(shells) and not all(shells) and len(shells) == len(shown.stack):
        both = zip(shown.stack, shells, strict=True)
        shown.stack = StackSummary.from_list([frame for frame, is_shell in both if not is_shell])


class _Shortened(StackSummary):
    """Frames, and the number of those that aren't there."""

    def __init__(self, frames: Sequence[FrameSummary], left_out: int, shows_all_by: str) -> None:
        super().__init__(frames)
        self._left_out, self._shows_all_by = left_out, shows_all_by

    def format(self, **options: Any) -> list[str]:
        """Return the lines that Python shows."""
        left_out, lines = self._left_out, super().format(**options)
        hint = f"  ({frames_of_libraries(left_out)} left out; {self._shows_all_by} shows all)\n"
        return [*lines, *([hint] if left_out else [])]


def frames_of_libraries(number: int) -> str:
    """Return a number of frames in words."""
    return f"{number} frame{'' if number == 1 else 's'} of libraries"


# ---- interruptions -------------------------------------------------------------------------------


#: Explanations of cancelled tasks that a Ctrl-C has ended: asyncio may drop their errors, such as
#: all but one of `asyncio.gather`. The next shown Ctrl-C has them.
_NOT_SHOWN: list[str] = []


def is_interrupted(error: BaseException) -> bool:
    """Return whether an error is a Ctrl-C, or a cancellation, with an explanation."""
    return interrupts(error) and is_shown_shortly(error)


def interrupts(error: BaseException) -> bool:
    """Return whether an error is a Ctrl-C, or the cancellation of a task."""
    asyncio = sys.modules.get("asyncio")
    return type(error) is KeyboardInterrupt or (
        asyncio is not None and type(error) is asyncio.CancelledError
    )


def remember_interrupt(error: BaseException) -> None:
    """Show the explanation of a task that a Ctrl-C has cancelled with the next shown Ctrl-C."""
    if is_interrupted(error):
        _NOT_SHOWN.append(_explanation(error))


def forget_interrupts() -> None:
    """Forget explanations that were not shown: their errors were handled."""
    _NOT_SHOWN.clear()


def explained_before(error: BaseException) -> BaseException | None:
    """Return a Ctrl-C or a cancellation, or the one that it comes from, that has an explanation."""
    before: BaseException | None = error
    seen = set[int]()
    while before is not None and interrupts(before) and id(before) not in seen:
        if is_interrupted(before):
            return before
        seen.add(id(before))
        before = _cause(before)
    return None


def interrupted_text(error: BaseException) -> str | None:
    """Return what is shown of a Ctrl-C or a cancellation: explanations of it, of the one that it
    comes from, as that of a task in `asyncio.run`, and of those that asyncio dropped. None if
    nothing is explained.
    """
    explained = explained_before(error)
    texts = [] if explained is None else [_explanation(explained)]
    if interrupts(error):
        texts += _NOT_SHOWN
        forget_interrupts()
    return "\n".join(dict.fromkeys(texts)) or None


def _explanation(error: BaseException) -> str:
    notes: list[str] = list(getattr(error, "__notes__", ()))
    before = error.__cause__
    lines = [f"interrupted: {notes[0]}", *(f"  {note}" for note in notes[1:])]
    if before is not None and not interrupts(before):
        lines.append(f"  before that: {type(before).__name__}: {before}")
    return plain("\n".join(lines))
