"""Processes of this machine: whether one is alive, its start, and the machine's identity."""

from __future__ import annotations

import functools
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from getpass import getuser
from pathlib import Path

import psutil

_MACHINE_ID = Path("/etc/machine-id")
#: psutil gives a machine's start as a time, which changes when the clock is set.
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@functools.cache
def this_machine() -> Mapping[str, str | None]:
    """Return the identity of this user on this machine since its start; None if unknown."""
    return {
        "user": user_name(),
        "host": socket.gethostname(),
        "machine_id": _line(_MACHINE_ID),
        "boot_id": _line(_BOOT_ID),
    }


def user_name() -> str | None:
    """Return this user's name on this machine; None if it has none, as in some containers."""
    try:
        return getuser()
    # ImportError: Windows without the variable USERNAME, before Python 3.13.
    except (ImportError, KeyError, OSError):
        return None


def this_user() -> str:
    """Return this user on this machine, as ``user@host``."""
    return f"{this_machine()['user'] or 'unknown'}@{this_machine()['host']}"


def is_this_user(holder: str | None) -> bool:
    """Return whether ``user@host`` is this user on a machine of this name."""
    return this_machine()["user"] is not None and holder == this_user()


def is_alive(pid: int) -> bool:
    """Return whether a process of this id exists."""
    return bool(psutil.pid_exists(pid))


def process_started(pid: int) -> str | None:
    """Return the start of a process, which distinguishes a reused id; None for an ended one.

    On Linux in hundredths of a second since the machine's start, which doesn't change when the
    clock is set.
    """
    # Read first: older versions of psutil add what was read last.
    booted_at = psutil.boot_time() if psutil.LINUX else 0.0
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return str(round((process.create_time() - booted_at) * 100))
    except psutil.Error:
        return None


def own_processes() -> Iterator[psutil.Process]:
    """Yield this user's processes with their ``info``; unreadable values are None."""
    if sys.platform == "win32":
        owner, own = "username", psutil.Process().username()
    else:
        owner, own = "uids", os.getuid()
    for process in psutil.process_iter([owner, "cmdline", "cwd", "create_time"]):
        found = process.info[owner]
        if found is not None and getattr(found, "real", found) == own:
            yield process


def _line(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None
