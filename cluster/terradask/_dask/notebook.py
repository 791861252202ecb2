"""Progress of making a cluster, shown in IPython, Jupyter and terminals."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from terradask._common.progress import (
    Message,
    PhaseFinished,
    PhaseStarted,
    Progress,
    ProgressEvent,
    ResourceChanged,
    silent,
)

logger = logging.getLogger("terradask")

_WORDS = {
    "resolve": "finding zones, images and instance types",
    "synthesise": "writing the Terraform configuration",
    "init": "initialising Terraform",
    "plan": "planning",
    "show": "reading the plan",
    "apply": "applying the plan",
    "destroy": "destroying",
    "start": "starting the instances",
    "attach": "waiting for the scheduler",
}


def describe(event: ProgressEvent) -> str | None:
    """Return a progress event as a short line, or None if it adds nothing for a user."""
    if isinstance(event, PhaseStarted):
        return f"{event.subject}: {_WORDS.get(event.phase, event.phase)}"
    if isinstance(event, ResourceChanged):
        return f"{event.subject}: {event.done}/{event.total} {event.address}"
    if isinstance(event, Message):
        return event.text
    if isinstance(event, PhaseFinished) and event.failed:
        return f"{event.subject}: {event.phase} failed"
    return None


class ClusterProgress:
    """Passes each event to the log, the notebook and the caller's function."""

    def __init__(self, function: Progress | None) -> None:
        self._function = function
        self.shown: Progress = silent

    def __call__(self, event: ProgressEvent, /) -> None:
        """Pass on an event."""
        logger.info("%s", event)
        self.shown(event)
        if self._function is not None:
            self._function(event)


@contextmanager
def shown_where_it_is_read(wanted: bool) -> Iterator[Progress]:
    """Show progress events while the block runs, if it is wanted and this is IPython, Jupyter, or a
    program whose standard error is a terminal.
    """
    if not wanted or not (_in_ipython() or sys.stderr.isatty()):
        yield silent
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True)
    if console.is_jupyter:
        with _shown_below_the_cell() as progress:
            yield progress
        return
    with console.status("terradask") as status:

        def show(event: ProgressEvent, /) -> None:
            text = describe(event)
            # Hosts wrote some of it: nothing in it is markup.
            if _is_kept(event):
                console.print(Text(text or ""))
            elif text is not None:
                status.update(Text(text))

        yield show


@contextmanager
def _shown_below_the_cell() -> Iterator[Progress]:
    """Show progress in one line of a cell's output, below those that stay; rich would need
    ipywidgets there.
    """
    from IPython.display import display

    shown = display(  # type: ignore[no-untyped-call]
        {"text/plain": "terradask"}, raw=True, display_id=True
    )

    kept: list[str] = []

    def show(event: ProgressEvent, /) -> None:
        text = describe(event)
        # Closing a cluster reports here too: the cell is over then.
        if text is None or over.is_set():
            return
        lines = [*kept, text]
        if _is_kept(event):
            kept.append(text)
        shown.update({"text/plain": "\n".join(lines)}, raw=True)

    over = threading.Event()
    try:
        yield show
    finally:
        over.set()
        shown.update({"text/plain": "\n".join(kept)}, raw=True)


def _is_kept(event: ProgressEvent) -> bool:
    return isinstance(event, Message) and event.kept


def _in_ipython() -> bool:
    interactive = sys.modules.get("IPython")
    return interactive is not None and interactive.get_ipython() is not None
