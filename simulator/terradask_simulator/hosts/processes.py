"""Processes of a machine: their environment, with the mark by which they are found and ended."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Collection
from pathlib import Path

import psutil

__all__ = ["MARK", "host_environ", "marked_processes", "signal_all", "wait_gone"]

#: The variable that every process of a host inherits; its value is the host's own folder.
MARK = "TERRADASK_HOST_ROOT"


def host_environ(folder: Path, region: str, endpoint_url: str) -> dict[str, str]:
    """Return the environment of programs on a host with a folder."""
    own = [folder / "bin", Path(sys.executable).parent]
    return {
        "PATH": os.pathsep.join([*map(str, own), "/usr/local/bin", "/usr/bin", "/bin"]),
        "HOME": str(folder),
        "TMPDIR": str(folder / "root/tmp"),
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "AWS_ENDPOINT_URL": endpoint_url,
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        MARK: str(folder / "root"),
    }


def marked_processes(marks: Collection[str]) -> dict[int, str]:
    """Return this user's processes with one of these marks (values of `MARK`), as process id to
    mark.
    """
    found: dict[int, str] = {}
    wanted = set(marks)
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            mark = process.environ().get(MARK)
            if mark in wanted and process.status() != psutil.STATUS_ZOMBIE:
                found[process.pid] = mark
    found.pop(os.getpid(), None)
    return found


def signal_all(pids: Collection[int], number: signal.Signals) -> None:
    """Send a signal to processes; ended ones are ignored."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def wait_gone(marks: Collection[str], seconds: float) -> bool:
    """Wait until no process has one of these marks; return whether all ended."""
    end = time.monotonic() + seconds
    while marked_processes(marks):
        if time.monotonic() >= end:
            return False
        time.sleep(0.05)
    return True
