"""The Dask process's first file. Run by path, in the cluster's Python: ``python -P launch.py
<descriptor or FIFO for events>``.

Keep it small, and import only the standard library: a nanny's spawned worker process imports it a
second time, and needs the package too.
"""

from __future__ import annotations

import importlib.util
import io
import json
import os
import signal
import sys
import traceback
from pathlib import Path


class Events:
    """Sends events to the host program, one JSON document per line.

    Child processes don't inherit the pipe's writing end, so that it closes when this process ends.
    """

    def __init__(self, where: str) -> None:
        # Opening makes it non-inheritable, as for a FIFO.
        descriptor = int(where) if where.isdecimal() else os.open(where, os.O_WRONLY)
        os.set_inheritable(descriptor, False)
        self._file = os.fdopen(descriptor, "w", encoding="utf-8")

    def report(self, event: str, **facts: object) -> None:
        """Send an event with its facts."""
        self._file.write(json.dumps({"event": event, **facts}) + "\n")
        self._file.flush()


def read_document() -> dict[str, object]:
    """Return the next document from the host program; exit if the pipe is closed."""
    line = sys.stdin.readline()
    if not line:
        vanish()
    document: dict[str, object] = json.loads(line)
    return document


def vanish() -> None:
    """Kill this process and all its children at once: the host program is gone."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def write_whole_lines() -> None:
    """Write each line of output at once, although ``PYTHONUNBUFFERED`` is set for tasks' programs.

    Otherwise ``print`` writes a line and its end by two calls, between which another thread's line,
    of another task or of Dask, gets into it.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, write_through=False)


def load_package() -> None:
    """Make ``terradask_host`` importable without the host program's other packages."""
    name = "terradask_host"
    folder = Path(__file__).resolve().parent.parent
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    from terradask_host.preload.local_names import explain_local_names  # was just made importable

    explain_local_names()


def main() -> int:
    """Prepare, import, receive the start document, and serve."""
    events = Events(sys.argv[1])
    write_whole_lines()
    load_package()
    try:
        from terradask_host.preload.serve import run  # needs the package that was just loaded

        return run(read_document, events.report)
    except Exception as error:  # noqa: BLE001 - the host's report must contain any error
        traceback.print_exc()
        events.report("failed", reason=_chain(error))
        return 1


def _chain(error: BaseException) -> str:
    """Return the error with its causes in one line: Dask hides the cause in "failed to start"."""
    parts: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(parts) < 5:
        parts.append(f"{type(cause).__name__}: {cause}")
        cause = cause.__cause__ or cause.__context__
    return " <- ".join(parts)


if __name__ == "__mp_main__":
    write_whole_lines()
    load_package()
elif __name__ == "__main__":
    sys.exit(main())
