"""The lock on a state: its holder, the wait for it, and the end of a killed command's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from terradask._common.processes import is_this_user
from terradask._terraform.folder_lock import FolderLock
from terradask._terraform.state.lock_info import LockInfo, proof_of_end, proof_of_loss
from terradask.errors import StateLocked

_Result = TypeVar("_Result")

#: So many answers in a row may get lost to a Terraform that takes a lock.
_LOSSES = 3

#: Breaks a lock; called with it, and why its owner is gone.
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
    """Run a command that locks the state; where a lock stands in its way, once more, after saying
    whose it is.

    A lock that the command took itself without hearing so is removed, and the command runs again;
    also where Terraform doesn't say whose lock it is, because S3 misses a young bucket's object.

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
        break_lock(_lock_of(locked), proof)
    elif limit_seconds > 0:
        on_wait(f"waiting up to {limit_seconds} s: {locked.problem}")
    if folder_lock.killed:
        folder_lock.forget_killed()
    elif limit_seconds <= 0:
        raise locked
    return run_but_for_itself(limit_seconds)


def left_by_killed(error: StateLocked, killed: Mapping[str, Any] | None) -> str | None:
    """Return why a state's lock is that of a command that was killed in this folder; else None."""
    return proof_of_end(_lock_of(error), killed)


def _lock_of(error: StateLocked) -> LockInfo:
    return LockInfo(error.lock_id, error.holder, error.since, error.operation, error.given)
