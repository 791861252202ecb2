"""Draw a cluster's live view in a terminal, a notebook, or a widget of the caller."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from terradask._observe.live_view import LiveView
from terradask_host.documents import plain_text

if TYPE_CHECKING:
    from rich.console import Console

#: Longest time that a notebook may show outdated ages.
_AGES_SECONDS = 10.0


class ClusterWidget(Protocol):
    """Interface of an object that draws a cluster's views."""

    def update(self, view: LiveView) -> None:
        """Draw a view."""


class TerminalWidget:
    """Draw in a terminal while a cluster is created; notes stay above."""

    def __init__(self, console: Console) -> None:
        from rich.live import Live
        from rich.spinner import Spinner

        self._console = console
        self._spinner = Spinner("dots", "terradask")
        self._live = Live(self._spinner, console=console, transient=True)
        self._noted = 0
        self._live.start()

    def update(self, view: LiveView) -> None:
        """Draw a view in place of the previous one."""
        from rich.console import Group
        from rich.text import Text

        from terradask._observe.live_drawing import Drawing

        # Some of it comes from hosts: print it as plain text, not as markup.
        for note in view.notes[self._noted :]:
            self._console.print(Text(plain_text(note)))
        self._noted = len(view.notes)
        self._spinner.update(text=Text(plain_text(view.step or f"{view.name}: {view.state}")))
        if not view.groups:
            self._live.update(self._spinner)
            return
        drawing = Drawing(replace(view, step=None, notes=()))
        self._live.update(Group(drawing, Text(), self._spinner))

    def close(self) -> None:
        """Remove the view."""
        self._live.stop()


class NotebookWidget:
    """Draw below a notebook's cell while the cluster is open; rich would need ipywidgets there."""

    def __init__(self) -> None:
        from IPython.display import display

        self._display: Any = display(  # type: ignore[no-untyped-call]
            {"text/plain": "terradask"}, raw=True, display_id=True
        )
        self._drawn: LiveView | None = None
        self._drawn_at = 0.0

    def update(self, view: LiveView) -> None:
        """Draw a view if it differs from the shown one."""
        from terradask._observe.live_drawing import Drawing

        is_old = time.monotonic() > self._drawn_at + _AGES_SECONDS
        if not is_old and self._drawn == view.without_ages:
            return
        self._drawn, self._drawn_at = view.without_ages, time.monotonic()
        self._display.update(Drawing(view).as_mimebundle(), raw=True)

    def close(self) -> None:
        """Keep the last view."""


def terminal_widget() -> TerminalWidget:
    """Return a widget for standard error, even if it isn't a terminal."""
    from rich.console import Console

    return TerminalWidget(Console(stderr=True))


def default_widget() -> TerminalWidget | NotebookWidget | None:
    """Return the widget for this process: in IPython, Jupyter, and programs with a terminal as
    standard error; else None.
    """
    if not (_in_ipython() or sys.stderr.isatty()):
        return None
    from rich.console import Console

    console = Console(stderr=True)
    return NotebookWidget() if console.is_jupyter else TerminalWidget(console)


def _in_ipython() -> bool:
    interactive = sys.modules.get("IPython")
    return interactive is not None and interactive.get_ipython() is not None
