"""The Dask process in any form: sends it documents, reads its messages, reports its end."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from terradask_host.agent.dask_process import DaskProcess
from terradask_host.agent.event_queue import ChildEnded, ChildMessage, EventQueue
from terradask_host.preload.referenced_secrets import VARIABLE as SECRETS_VARIABLE
from terradask_host.rules.policy import Exit

#: Longest part of a line kept to explain why a process ended.
REASON_CHARACTERS = 300


def child_environ(
    base: Mapping[str, str],
    *,
    home: Path,
    region: str,
    run_environ: Mapping[str, str],
    secrets_socket: Path | None = None,
    mounts: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the Dask process's environment variables.

    On top of its program's: the home of the host's user, which has no personal Dask configuration
    or credentials; the region for AWS SDKs in tasks, unless the run sets one; where file systems
    are mounted; the cluster's ``environ=``, which only the Dask process gets; and the address of
    the run's secrets, if it has some, which the process sets in its own environment later.
    """
    regions = {"AWS_REGION": region, "AWS_DEFAULT_REGION": region}
    fixed = {"HOME": str(home), "PYTHONUNBUFFERED": "1"}
    socket = {} if secrets_socket is None else {SECRETS_VARIABLE: str(secrets_socket)}
    return {**regions, **base, **fixed, **(mounts or {}), **run_environ, **socket}


class DaskChild:
    """One Dask process: its messages become events, its output goes to the log."""

    _count = 0

    def __init__(
        self, process: DaskProcess, *, events: EventQueue, log: Callable[[str], None]
    ) -> None:
        DaskChild._count += 1
        self.number = DaskChild._count
        self._process = process
        self._events = events
        self._log = log
        self._sending = threading.Lock()
        self._ran = False
        self._reason: str | None = None
        self._last_line: str | None = None
        self._threads = [
            threading.Thread(target=self._read_lines, name="dask-output", daemon=True),
            threading.Thread(target=self._read_events, name="dask-events", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def send(self, document: Mapping[str, Any]) -> None:
        """Send a document, from any thread. A process that has ended is noticed by its end."""
        with self._sending, contextlib.suppress(OSError, ValueError):
            self._process.send(json.dumps(document).encode() + b"\n")

    def kill(self) -> None:
        """End the process and its children at once; wait for its end and its last lines."""
        self._process.kill()
        for thread in self._threads:
            thread.join(2.0)

    def _read_lines(self) -> None:
        for line in self._process.output():
            text = line.decode(errors="replace").rstrip()
            self._last_line = text[:REASON_CHARACTERS] or self._last_line
            self._log(text)

    def _read_events(self) -> None:
        for line in self._process.events():
            self._take(line)
        code = self._process.wait()
        # The last lines usually give the cause; a grandchild may hold the pipe open, so time out.
        self._threads[0].join(1.0)
        self._events.put(
            ChildEnded(self.number, Exit(code, self._reason, self._ran, self._last_line))
        )

    def _take(self, line: str) -> None:
        try:
            facts = json.loads(line)
            event = str(facts.pop("event"))
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
            print(f"not an event: {line!r}", file=sys.stderr)
            return
        if event == "running":
            self._ran = True
        if event in ("closing", "failed") and self._reason is None:
            self._reason = facts.get("reason")
        self._events.put(ChildMessage(self.number, event, facts))
