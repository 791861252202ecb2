"""Ends everything that runs on a machine: its process group, its children, and whatever carries its
mark.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Collection

import psutil  # type: ignore[import-untyped]  # psutil carries no types

__all__ = ["MARK", "marked_processes", "signal_all", "wait_gone"]

#: The variable that every process of a host inherits; its value is the host's own folder.
MARK = "TERRADASK_HOST_ROOT"


def marked_processes(marks: Collection[str]) -> dict[int, str]:
    """Return this user's living processes that carry one of these marks (values of `MARK`), as
    process id to mark.
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
    """Send a signal to processes; those that are gone are passed over."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def wait_gone(marks: Collection[str], seconds: float) -> bool:
    """Wait until no process carries one of these marks; return whether all are gone."""
    end = time.monotonic() + seconds
    while marked_processes(marks):
        if time.monotonic() >= end:
            return False
        time.sleep(0.05)
    return True
