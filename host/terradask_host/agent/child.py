"""The Dask process: starting it, speaking with it, hearing of its end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from terradask_host.agent.event_queue import ChildEnded, ChildSaid, EventQueue
from terradask_host.rules.policy import Exit

LAUNCHER = Path(__file__).parent.parent / "preload" / "launch.py"

#: As much of a line as is needed to say why a process ended.
REASON_CHARACTERS = 300

#: What would lead the cluster's Python to the host program's own packages.
_OWN_VARIABLES = ("VIRTUAL_ENV", "PYTHONHOME", "PYTHONSAFEPATH", "__PYVENV_LAUNCHER__")


def child_environ(
    base: Mapping[str, str], *, home: Path, region: str, run_environ: Mapping[str, str]
) -> dict[str, str]:
    """Return the Dask process's environment variables.

    On the host program's own: the home of the host's user, which has no personal Dask configuration
    or credentials; the region for AWS SDKs in tasks, unless the run says otherwise; and what the
    cluster's ``environ=`` asks for, which the Dask process alone gets.
    """
    kept = {name: value for name, value in base.items() if name not in _OWN_VARIABLES}
    kept.setdefault("AWS_REGION", region)
    kept.setdefault("AWS_DEFAULT_REGION", region)
    return kept | {"HOME": str(home), "PYTHONUNBUFFERED": "1"} | dict(run_environ)


class DaskChild:
    """One Dask process, in a session of its own: signals to the host program don't reach it.

    It reads documents on standard input (one JSON document a line; its end means that the host
    program is gone, and the process with all its children goes too), and reports on a pipe of its
    own. Its output goes to the log.
    """

    _count = 0

    def __init__(
        self,
        python: Path,
        *,
        environ: Mapping[str, str],
        folder: Path,
        events: EventQueue,
        log: Callable[[str], None],
    ) -> None:
        DaskChild._count += 1
        self.number = DaskChild._count
        self._events = events
        self._log = log
        self._sending = threading.Lock()
        self._ran = False
        self._reason: str | None = None
        self._last_line: str | None = None
        reading, writing = os.pipe()
        try:
            self._process = subprocess.Popen(
                [str(python), "-P", str(LAUNCHER), str(writing)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=dict(environ),
                cwd=folder,
                pass_fds=(writing,),
                start_new_session=True,
            )
        except OSError:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        self._threads = [
            threading.Thread(target=self._read_lines, name="dask-output", daemon=True),
            threading.Thread(
                target=self._read_events, args=(reading,), name="dask-events", daemon=True
            ),
        ]
        for thread in self._threads:
            thread.start()

    def send(self, document: Mapping[str, Any]) -> None:
        """Send it a document, from any thread. A process that is already gone is noticed by its
        end.
        """
        assert self._process.stdin is not None
        with self._sending, contextlib.suppress(OSError, ValueError):
            self._process.stdin.write(json.dumps(document).encode() + b"\n")
            self._process.stdin.flush()

    def kill(self) -> None:
        """End the process and whatever it started, at once; wait for its end and its last lines."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        for thread in self._threads:
            thread.join(2.0)

    def _read_lines(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                text = line.decode(errors="replace").rstrip()
                self._last_line = text[:REASON_CHARACTERS] or self._last_line
                self._log(text)

    def _read_events(self, descriptor: int) -> None:
        with os.fdopen(descriptor, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                self._take(line)
        code = self._process.wait()
        # The last lines usually say why; a grandchild may hold the pipe open, so not for ever.
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
        self._events.put(ChildSaid(self.number, event, facts))
