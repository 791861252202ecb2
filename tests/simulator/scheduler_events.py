"""A preload of a scheduler that writes what it logs of workers and clients to a file: tests know of
it although none of them is a client, and also when the scheduler is gone.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import click
from distributed.diagnostics.plugin import SchedulerPlugin

#: A scheduler's process that begins; the other actions are Dask's.
BEGINS = "begin-scheduler"

_ACTIONS = ("add-worker", "remove-worker", "retire-workers", "add-client", "remove-client")


class EventFile(SchedulerPlugin):
    """Appends a line for each event."""

    name = "event-file"

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def log_event(self, topic: str, msg: Any) -> None:
        """Write an event that is a matter of all."""
        if topic == "all" and msg["action"] in _ACTIONS:
            self.write(msg)

    def write(self, event: dict[str, Any]) -> None:
        """Write an event."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([time.time(), event], default=str) + "\n")


@click.command()
@click.argument("path")
def dask_setup(scheduler: Any, path: str) -> None:
    """Begin, as Dask wants it of a preload."""
    file = EventFile(path)
    file.write({"action": BEGINS, "pid": os.getpid()})
    scheduler.add_plugin(file)


def options(path: Path) -> dict[str, Any]:
    """Return the options of a scheduler that writes its events to a file."""
    return {"preload": [__file__], "preload_argv": [str(path)]}


def read(path: Path) -> list[tuple[float, dict[str, Any]]]:
    """Return when each event was, in seconds since the epoch, and the event."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    # After the last end of a line there may be half a line.
    lines = text[: text.rfind("\n") + 1].splitlines()
    return [(at, event) for at, event in map(json.loads, lines)]
