"""What the operating system says of a host's processes."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path


def children(pid: int) -> list[int]:
    """The processes that any thread of a process started."""
    texts = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    return [int(child) for text in texts for child in text.split()]


def family(pid: int) -> list[int]:
    """A process and all below it."""
    return [pid, *(each for child in children(pid) for each in family(child))]


def alive(pid: int) -> bool:
    try:
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def _sockets(pid: int) -> set[str]:
    """The sockets of a process and all below it."""
    sockets = set()
    for process in family(pid):
        for link in Path(f"/proc/{process}/fd").iterdir():
            with contextlib.suppress(OSError):
                sockets.add(link.readlink().name)
    return sockets


def listening_files(pid: int) -> list[str]:
    """The Unix sockets at which a process and all below it listen; nameless ones as ``""``."""
    sockets, found = _sockets(pid), []
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        parts = line.split(maxsplit=7)
        # The kernel's flag of a socket that accepts connections.
        if parts[3] == "00010000" and f"socket:[{parts[6]}]" in sockets:
            found.append(parts[7] if len(parts) > 7 else "")
    return found


def listening(pid: int) -> list[tuple[str, int]]:
    """Where a process and all below it listen."""
    sockets = _sockets(pid)
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            parts = line.split()
            if parts[3] == "0A" and f"socket:[{parts[9]}]" in sockets:
                host, port = parts[1].split(":")
                address = socket.inet_ntoa(bytes.fromhex(host)[::-1]) if table == "tcp" else host
                found.append((address, int(port, 16)))
    return found
