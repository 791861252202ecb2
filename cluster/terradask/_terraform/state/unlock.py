"""Break the lock on a state, and record by whom and why."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from terradask._aws.session import Aws
from terradask._common.processes import this_user
from terradask._terraform.folder_lock import FolderLock
from terradask._terraform.state.lock import LockInfo, locked_error, proof_of_end
from terradask._terraform.state.s3 import S3Backend
from terradask.errors import AccessDenied, InvalidInput, StateLocked

RECORDS = "unlocks.jsonl"
FORMAT = 1


@dataclass(frozen=True)
class BrokenLock:
    """A broken lock."""

    #: Time, in UTC.
    at: str
    #: ``network``, or the cluster's name.
    stack: str
    #: Place of the state.
    state: str
    #: `lock_id`, `holder`, `since`, `operation`: Terraform's contents of the lock.
    lock_id: str | None
    holder: str | None
    since: str | None
    operation: str | None
    #: The proof that its owner was gone, or that it was forced.
    reason: str
    #: Whether there was no proof.
    forced: bool
    #: `broken_by`, `caller_arn`: ``user@host``, and the caller's ARN in AWS.
    broken_by: str
    caller_arn: str

    def as_dict(self) -> dict[str, Any]:
        """Return the record."""
        return {"format": FORMAT, **asdict(self)}


def unlock(
    place: S3Backend, *, folder: Path, state_dir: Path, caller: Aws, force: str | None = None
) -> BrokenLock | None:
    """Break a named lock, or one whose owner is provably gone.

    Raises `StateLocked`, `FolderBusy`, `InvalidInput`.

    Permissions needed: ``s3:GetObject``, ``s3:DeleteObject`` on the state's ``.tflock``,
    ``s3:PutObject`` on ``unlocks/*``.
    """
    lock = place.lock()
    if lock is None:
        return None
    # While this lock is held, no command of this folder runs: each one inherits it.
    with FolderLock(folder, limit_seconds=0) as folder_lock:
        proof = proof_of_end(lock, folder_lock.killed)
        if force is not None and force != lock.id:
            raise InvalidInput(
                "the lock has another id",
                given=force,
                allowed=lock.id or "no id",
                advice=f"it is {lock.describe()}",
            )
        if proof is None and force is None:
            raise _unproven(lock, folder)
        # Recorded first: no lock is broken without a record.
        broken = write_down(
            place, lock, stack=folder.name, proof=proof, state_dir=state_dir, caller=caller
        )
        if place.lock() == lock:
            place.break_lock(lock.id)
        if proof is not None:
            folder_lock.forget_killed()
    return broken


def write_down(
    place: S3Backend,
    lock: LockInfo,
    *,
    stack: str,
    proof: str | None,
    state_dir: Path,
    caller: Aws,
    unless_denied: Callable[[str], None] | None = None,
) -> BrokenLock:
    """Record locally and in the bucket that a lock is being broken. Raises `AccessDenied`."""
    broken = BrokenLock(
        at=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        stack=stack,
        state=place.name,
        lock_id=lock.id,
        holder=lock.holder,
        since=lock.moment,
        operation=lock.operation,
        reason=proof or "forced: without proof that its owner had ended",
        forced=proof is None,
        broken_by=this_user(),
        caller_arn=caller.caller_arn,
    )
    document: Mapping[str, Any] = broken.as_dict()
    path = state_dir / RECORDS
    try:
        place.write_beside(f"unlocks/{broken.at}.json", document)
    except AccessDenied as denied:
        if unless_denied is None:
            raise
        unless_denied(f"the broken lock is recorded only in {path}: {denied.problem}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(document) + "\n")
    return broken


def _unproven(lock: LockInfo, folder: Path) -> StateLocked:
    error = locked_error(lock, {"verb": "unlock", "folder": str(folder)})
    error.allowed = "a lock of this user on this machine, whose command was killed"
    error.advice = (
        "terradask can't prove that the command that took it has ended: ask "
        f"{lock.holder or 'the other users of this workspace'}, and wait while it runs. Once it "
        f"has surely ended: terradask unlock {folder.name} --force {lock.id or 'LOCK_ID'}"
    )
    return error
