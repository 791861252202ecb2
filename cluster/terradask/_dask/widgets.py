"""Draw a cluster's live view in a terminal, a notebook, or a widget of the caller; print it as
lines where there is neither.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TextIO

from terradask._common.clock import age_text
from terradask_host.documents import plain_text

if TYPE_CHECKING:
    from rich.console import Console

    from terradask._observe.live_page import Heights
    from terradask._observe.live_view import LiveView

#: Longest time that a notebook may show outdated ages.
_AGES_SECONDS = 10.0
#: A script's output gets a line after so many seconds in one step.
_SIGN_SECONDS = 30.0

#: Prints a line for people who wait.
LastLine = Callable[[str], None]


class ClusterWidget(Protocol):
    """Interface of an object that draws a cluster's views."""

    def update(self, view: LiveView) -> None:
        """Draw a view."""


class OwnWidget:
    """A widget of this module, which also draws each second while a cluster is made. By default it
    prints notes, and a line at the end.
    """

    #: Whether it draws while the cluster is open, and not only while it is made.
    is_lasting: ClassVar[bool] = False
    _noted = 0
    _there: str | None = None

    def update(self, view: LiveView) -> None:
        """Draw a view."""
        for note in view.notes[self._noted :]:
            self.last_line(note)
        self._noted = len(view.notes)
        self._there = there_line(view)

    def close(self) -> None:
        """Print that the cluster is there."""
        if self._there is not None:
            self.last_line(self._there)

    def last_line(self, text: str) -> None:
        """Print a line, such as what the cluster did, once it is closed."""


class TerminalWidget(OwnWidget):
    """Draw in a terminal while a cluster is created; notes stay above, and a line at the end."""

    def __init__(self, console: Console) -> None:
        from rich.live import Live

        from terradask._observe.live_drawing import Steady

        self._console = console
        self._steady = Steady()
        self._live = Live(self._steady, console=console, transient=True)
        self._live.start()

    def update(self, view: LiveView) -> None:
        """Draw a view in place of the previous one."""
        super().update(view)
        self._live.update(self._steady.show(replace(view, notes=())))

    def close(self) -> None:
        """Remove the view, and print that the cluster is there."""
        self._live.stop()
        super().close()

    def last_line(self, text: str) -> None:
        """Print a line."""
        from rich.text import Text

        # Some of it comes from hosts: print it as plain text, not as markup.
        self._console.print(Text(plain_text(text)))


class LinesWidget(OwnWidget):
    """Print a line to a script's output for each step that ends, and now and then in a long one."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._ended: set[str] = set()
        self._printed_at = clock()

    def update(self, view: LiveView) -> None:
        """Print what is new in a view."""
        super().update(view)
        for step in () if view.state == "attaching" else view.steps:
            if step.is_over and step.name not in self._ended:
                self._ended.add(step.name)
                detail = f", {step.detail}" if step.detail else ""
                did = f"{step.name} {step.state}{detail}"
                self.last_line(f"{view.name}: {did}, {age_text(step.seconds or 0)}")
            elif not step.is_over:
                self._ended.discard(step.name)
        if view.steps and self._clock() - self._printed_at >= _SIGN_SECONDS:
            from terradask._observe.live_frame import frame_of

            frame = frame_of(view)
            self.last_line(f"{frame.summary}; {frame.now}" if frame.now else frame.summary)

    def last_line(self, text: str) -> None:
        """Print a line."""
        self._printed_at = self._clock()
        self._stream.write(f"{plain_text(text)}\n")
        self._stream.flush()


def there_line(view: LiveView) -> str | None:
    """Return a line about a cluster that has just been made; None if it wasn't. Without the
    dashboard's link, whose token must not be in logs.
    """
    from terradask._observe.live_frame import frame_of

    if not view.steps or not all(step.state == "done" for step in view.steps):
        return None
    seconds = sum(step.seconds or 0 for step in view.steps)
    did = "attached" if view.state == "attaching" else "ready"
    summary = frame_of(replace(view, state="running", steps=())).summary
    return f"{summary}; {did} in {age_text(seconds)}"


class NotebookWidget(OwnWidget):
    """Draw below a notebook's cell while the cluster is open; rich would need ipywidgets there.
    Notes and the last line are in the view.
    """

    is_lasting: ClassVar[bool] = True

    def __init__(self) -> None:
        from IPython.display import display

        self._display: Any = display(  # type: ignore[no-untyped-call]
            {"text/plain": "terradask"}, raw=True, display_id=True
        )
        self._drawn: LiveView | None = None
        self._drawn_at = 0.0
        #: The greatest heights so far: what is below stays in place.
        self._least: Heights = ()

    def update(self, view: LiveView) -> None:
        """Draw a view if it differs from the shown one."""
        from terradask._observe.live_drawing import Drawing
        from terradask._observe.live_page import heights_of, higher, page_of

        is_old = time.monotonic() > self._drawn_at + _AGES_SECONDS
        if not is_old and self._drawn == view.without_ages:
            return
        self._drawn, self._drawn_at = view.without_ages, time.monotonic()
        self._least = higher(self._least, heights_of(view))
        page = page_of(view, least=self._least)
        self._display.update({"text/plain": Drawing(view).as_text(), "text/html": page}, raw=True)


def own_widget() -> OwnWidget:
    """Return the terminal's widget for standard error, even if it isn't a terminal."""
    from rich.console import Console

    return TerminalWidget(Console(stderr=True))


def default_widget() -> OwnWidget | None:
    """Return the widget for this process: IPython's, Jupyter's or the terminal's, else lines; None
    where logging shows the same already, or nothing can be printed.
    """
    if sys.stderr is None:
        return None
    if not (_in_ipython() or sys.stderr.isatty()):
        logger = logging.getLogger("terradask")
        is_logged = logger.hasHandlers() and logger.isEnabledFor(logging.INFO)
        return None if is_logged else LinesWidget(sys.stderr)
    from rich.console import Console

    console = Console(stderr=True)
    return NotebookWidget() if console.is_jupyter else TerminalWidget(console)


def _in_ipython() -> bool:
    interactive = sys.modules.get("IPython")
    return interactive is not None and interactive.get_ipython() is not None
