"""The lock on a state: who holds it, how long to wait, and what becomes of one that a killed command left behind."""

from __future__ import annotations

import datetime
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from terradask._terraform.folder_lock import FolderLock
from terradask._terraform.state.lock_owner import is_here, proof_of_end, proof_of_loss
from terradask.errors import StateLocked

_Result = TypeVar("_Result")

#: So many answers in a row may get lost to a Terraform that takes a lock.
_LOSSES = 3

#: Told of a lock that is about to be broken, and why its owner is gone.
OnUnlock = Callable[["LockInfo", str], None]


@dataclass(frozen=True)
class LockInfo:
    """What Terraform writes into a lock.

    Parameters
    ----------
    id
        The lock's id.
    holder
        ``user@host``.
    since
        When it was taken, as Terraform writes it.
    operation
        Such as ``OperationTypeApply``.
    path
        What is locked.
    """

    id: str | None = None
    holder: str | None = None
    since: str | None = None
    operation: str | None = None
    path: str | None = None

    @classmethod
    def from_text(cls, text: str) -> LockInfo:
        """Read the text in which Terraform describes a lock (``Lock Info: …``)."""
        info = dict(re.findall(r"^\s*(ID|Path|Operation|Who|Created):[ \t]*(.*?)[ \t]*$", text, re.M))
        return cls._of(info)

    @classmethod
    def from_json(cls, content: bytes) -> LockInfo:
        """Read a lock's file or object; what another program wrote gets an id made from what it is."""
        try:
            info = json.loads(content)
        except ValueError:
            info = None
        if isinstance(info, Mapping) and info.get("ID"):
            return cls._of(info)
        return cls(id=hashlib.sha256(content).hexdigest()[:16])

    @classmethod
    def _of(cls, info: Mapping[str, Any]) -> LockInfo:
        return cls(*(str(info[key]) if info.get(key) else None for key in ("ID", "Who", "Created", "Operation", "Path")))

    @property
    def seconds(self) -> float | None:
        """When it was taken, in seconds since the epoch."""
        created = re.match(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(\.\d{1,6})?\d*(?: \+0000 UTC|Z)", self.since or "")
        if created is None:
            return None
        return datetime.datetime.fromisoformat(f"{created[1]}T{created[2]}+00:00").timestamp() + float(created[3] or 0)

    def describe(self) -> str:
        """Return who holds it since when, and for what."""
        doing = f" ({self.operation.removeprefix('OperationType').lower()})" if self.operation else ""
        return f"locked by {self.holder or 'somebody'} since {self._moment or 'an unknown time'}{doing}"

    @property
    def _moment(self) -> str | None:
        """When it was taken, to the second; as it is given where that can't be read."""
        if self.seconds is None:
            return self.since
        return datetime.datetime.fromtimestamp(self.seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def locked_error(lock: LockInfo | str, common: Mapping[str, Any]) -> StateLocked:
    """Return the error that names a lock's holder."""
    if isinstance(lock, str):
        lock = LockInfo.from_text(lock)
    whom = "that is this machine" if is_here(lock.holder) else "ask them"
    unlock = f"terradask unlock {Path(str(common['folder'])).name}"
    error = StateLocked(
        f"the state is {lock.describe()}",
        **common,
        given=lock.path,
        advice=f"{whom}: wait until the other command has ended. If it was killed, its lock ({lock.id or 'without an id'}) stays: {unlock}",
    )
    error.holder, error.since, error.lock_id, error.operation = lock.holder, lock.since, lock.id, lock.operation
    return error


def past_lock(
    run: Callable[[int], _Result],
    *,
    limit_seconds: int,
    folder_lock: FolderLock,
    in_s3: bool,
    remove_lock: Callable[[str], None],
    on_unlock: OnUnlock,
    on_wait: Callable[[str], None],
) -> _Result:
    """Run a command that locks the state; where a lock stands in its way, once more, after saying whose it is.

    A lock that the command took itself without hearing so is removed, and the command runs again.

    Raises
    ------
    StateLocked
        If somebody else holds the lock for longer.
    """

    def run_but_for_itself(seconds: int) -> _Result:
        for _ in range(_LOSSES if in_s3 else 0):
            try:
                return run(seconds)
            except StateLocked as error:
                lock = _lock_of(error)
                proof = proof_of_loss(lock, folder_lock.ended)
                if proof is None:
                    raise
                on_wait(f"removing the lock on the state: {proof}")
                on_unlock(lock, proof)
                remove_lock(str(lock.id))
        return run(seconds)

    try:
        # At once: Terraform waits without saying for whom.
        done = run_but_for_itself(0)
    except StateLocked as error:
        locked = error
    else:
        if folder_lock.killed:
            folder_lock.forget_killed()
        return done
    proof = left_by_killed(locked, folder_lock.killed)
    if proof is not None:
        on_wait("removing the lock on the state that a killed Terraform left here")
        on_unlock(_lock_of(locked), proof)
        remove_lock(str(locked.lock_id))
    elif limit_seconds > 0:
        on_wait(f"waiting up to {limit_seconds} s: {locked.problem}")
    if folder_lock.killed:
        folder_lock.forget_killed()
    elif limit_seconds <= 0:
        raise locked
    return run_but_for_itself(limit_seconds)


def left_by_killed(error: StateLocked, killed: Mapping[str, Any] | None) -> str | None:
    """Return why a state's lock is that of a command that was killed in this folder, and so holds nothing any more; else None."""
    return proof_of_end(_lock_of(error), killed)


def _lock_of(error: StateLocked) -> LockInfo:
    return LockInfo(error.lock_id, error.holder, error.since, error.operation, error.given)
