"""What draws a cluster's live view: a terminal, a notebook, or an object of the caller's."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from terradask._observe.live_view import LiveView
from terradask_host.documents import plain_text

if TYPE_CHECKING:
    from rich.console import Console

#: How long a notebook's output may show ages that have grown meanwhile.
_AGES_SECONDS = 10.0


class ClusterWidget(Protocol):
    """What takes a cluster's views."""

    def update(self, view: LiveView) -> None:
        """Draw a view."""


class TerminalWidget:
    """Draws in a terminal while a cluster is made; notes stay above."""

    def __init__(self, console: Console) -> None:
        from rich.live import Live
        from rich.spinner import Spinner

        self._console = console
        self._spinner = Spinner("dots", "terradask")
        self._live = Live(self._spinner, console=console, transient=True)
        self._noted = 0
        self._live.start()

    def update(self, view: LiveView) -> None:
        """Draw a view in place of the one before."""
        from rich.console import Group
        from rich.text import Text

        from terradask._observe.live_drawing import Drawing

        # Hosts wrote some of it: nothing in it is markup.
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
        """Take the view away."""
        self._live.stop()


class NotebookWidget:
    """Draws below a notebook's cell, as long as the cluster is open; rich would need ipywidgets
    there.
    """

    def __init__(self) -> None:
        from IPython.display import display

        self._display: Any = display(  # type: ignore[no-untyped-call]
            {"text/plain": "terradask"}, raw=True, display_id=True
        )
        self._drawn: LiveView | None = None
        self._drawn_at = 0.0

    def update(self, view: LiveView) -> None:
        """Draw a view, if it differs from the one that is shown."""
        from terradask._observe.live_drawing import Drawing

        is_old = time.monotonic() > self._drawn_at + _AGES_SECONDS
        if not is_old and self._drawn == view.without_ages:
            return
        self._drawn, self._drawn_at = view.without_ages, time.monotonic()
        self._display.update(Drawing(view).as_mimebundle(), raw=True)

    def close(self) -> None:
        """Leave what is shown."""


def terminal_widget() -> TerminalWidget:
    """Return what draws on standard error, whatever that is."""
    from rich.console import Console

    return TerminalWidget(Console(stderr=True))


def own_widget() -> TerminalWidget | NotebookWidget | None:
    """Return what draws here: in IPython, Jupyter, and programs whose standard error is a terminal;
    else None.
    """
    if not (_in_ipython() or sys.stderr.isatty()):
        return None
    from rich.console import Console

    console = Console(stderr=True)
    return NotebookWidget() if console.is_jupyter else TerminalWidget(console)


def _in_ipython() -> bool:
    interactive = sys.modules.get("IPython")
    return interactive is not None and interactive.get_ipython() is not None
