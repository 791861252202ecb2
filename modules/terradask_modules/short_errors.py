"""Show errors of terradask with the lines of their user alone, by the hooks of Python and IPython.

Only what is shown is short: tracebacks stay whole, for debuggers, logs and test runners.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from types import TracebackType
from typing import TypeVar

from terradask_modules.ipython_tracebacks import render_in_ipython, show_in
from terradask_modules.tracebacks import (
    explained_before,
    interrupts,
    is_interrupted,
    plain,
    short_text,
)

_Error = TypeVar("_Error", bound=BaseException)


def shown_shortly(error: _Error) -> _Error:
    """Return an error of Python's own that has a short form too, by IPython's hook of this one."""
    error._is_shown_shortly = True  # type: ignore[attr-defined]
    error._render_traceback_ = _Renderer()  # type: ignore[attr-defined]
    return error


def explain_interrupt(error: BaseException, taken_back: str, left: str) -> None:
    """Add notes to a Ctrl-C, or to the cancellation of a task: what was taken back, and what is
    left with the command for it; then it is shown as these two lines. The first explanation stays.
    """
    if interrupts(error) and not is_interrupted(error):
        for note in (plain(taken_back), f"left: {plain(left)}"):
            error.add_note(note)
        # Python ends by the signal only for this class, not for one below it.
        shown_shortly(error)


class _Renderer:
    """IPython's hook of one error, which is being handled or was the last one: it pickles."""

    def __call__(self) -> list[str]:
        error = sys.exc_info()[1] or getattr(sys, "last_value", None)
        assert error is not None
        return render_in_ipython(error)


# ---- Python: scripts and the REPL ----------------------------------------------------------------


def show_uncaught() -> None:
    """Show uncaught errors of terradask shortly: in scripts, threads, ``__del__``, asyncio's tasks
    and IPython.

    A hook that the program has set stays, and so do handlers of logs.
    """
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _show
    if threading.excepthook is threading.__excepthook__:
        threading.excepthook = _show_of_thread
    if sys.unraisablehook is sys.__unraisablehook__:
        sys.unraisablehook = _show_ignored
    tasks = logging.getLogger("asyncio")
    if not any(isinstance(each, _ShownTasks) for each in tasks.filters):
        tasks.addFilter(_ShownTasks())
    if (ipython := sys.modules.get("IPython")) and (shell := ipython.get_ipython()):
        show_in(shell)


def _show(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None, /
) -> None:
    if not _wrote(error, traceback):
        sys.__excepthook__(kind, error, traceback)


def _show_of_thread(arguments: threading.ExceptHookArgs, /) -> None:
    """Show what ended a thread, below the line that Python's own hook begins with."""
    thread = arguments.thread
    name = threading.get_ident() if thread is None else thread.name
    if not _wrote(arguments.exc_value, arguments.exc_traceback, f"Exception in thread {name}:\n"):
        threading.__excepthook__(arguments)


def _show_ignored(arguments: sys.UnraisableHookArgs, /) -> None:
    """Show what Python can't raise, as in ``__del__``, below the line of Python's own hook."""
    error = arguments.exc_value
    if error is not None and explained_before(error) not in (None, error):
        # Another Ctrl-C: the one that it came after is shown itself.
        return
    what = arguments.err_msg or "Exception ignored in"
    try:
        place = "" if arguments.object is None else f": {arguments.object!r}"
    except Exception:  # noqa: BLE001  an object that is half gone may have no text
        place = ""
    if not _wrote(error, arguments.exc_traceback, f"{what}{place}\n"):
        sys.__unraisablehook__(arguments)


def _wrote(error: BaseException | None, traceback: TracebackType | None, head: str = "") -> bool:
    """Write an error's short form below a line; return whether there is one."""
    try:
        text = None if error is None else short_text(type(error), error, traceback)
    except Exception:  # noqa: BLE001  the error itself must be shown, whatever hinders its short form
        text = None
    if text is None or sys.stderr is None:
        return False
    sys.stderr.write(f"{head}{text}")
    sys.stderr.flush()
    return True


class _ShownTasks(logging.Filter):
    """Shortens what asyncio logs of tasks, as long as no handler is set: then Python shows it."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Pass every record."""
        found = record.exc_info
        is_shown = not (record.exc_text or logging.getLogger(record.name).hasHandlers())
        if is_shown and found and found[1]:
            with contextlib.suppress(Exception):
                record.exc_text = (short_text(*found) or "").rstrip() or None
        return True
