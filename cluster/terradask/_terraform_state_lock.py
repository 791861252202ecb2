"""The lock on a state: who holds it, and what becomes of one that a killed command left behind."""

from __future__ import annotations

import datetime
import re
import socket
from collections.abc import Callable, Mapping
from getpass import getuser
from typing import Any, TypeVar

from terradask._folder_lock import FolderLock
from terradask.errors import StateLocked

#: A Terraform that locks a state has done so this long after its start, waiting for another's lock included.
_LOCKING_SECONDS = 30

_Result = TypeVar("_Result")


def locked_error(lock_info: str, common: Mapping[str, Any]) -> StateLocked:
    """Return the error that names a lock's holder.

    Parameters
    ----------
    lock_info
        The text in which Terraform describes the lock (``Lock Info: …``).
    common
        What every `TerraformError` carries.
    """
    info = dict(re.findall(r"^\s*(ID|Path|Operation|Who|Created):[ \t]*(.*?)[ \t]*$", lock_info, re.M))
    holder = info.get("Who") or "somebody"
    since = info.get("Created") or "an unknown time"
    whom = "that is this machine" if _is_here(holder) else "ask them"
    unlock = f"terraform -chdir={common['folder']} force-unlock {info.get('ID', 'LOCK_ID')}"
    error = StateLocked(
        f"the state is locked by {holder} since {since}",
        **common,
        given=info.get("Path"),
        advice=(
            f"{whom}: wait until the other command has ended. If it was killed, the lock stays: make sure that nothing runs, then {unlock}"
        ),
    )
    error.holder, error.since = info.get("Who"), info.get("Created")
    error.lock_id, error.operation = info.get("ID"), info.get("Operation")
    return error


def past_lock_of_killed(
    run: Callable[[], _Result], *, folder_lock: FolderLock, force_unlock: Callable[[str], None], on_wait: Callable[[str], None]
) -> _Result:
    """Run a command that locks the state; once more where a lock stood in its way, and a command was killed in this folder.

    Parameters
    ----------
    run
        Runs the command.
    folder_lock
        Knows the command that was killed here; forgets it when the state can be locked again.
    force_unlock
        Removes a lock by its id.
    on_wait
        Told before a lock is removed.

    Raises
    ------
    StateLocked
        If somebody else holds the lock.
    """
    try:
        done = run()
    except StateLocked as error:
        if not folder_lock.killed:
            raise
        locked = error
    else:
        if folder_lock.killed:
            folder_lock.forget_killed()
        return done
    if left_by_killed(locked, folder_lock.killed):
        on_wait("removing the lock on the state that a killed Terraform left here")
        force_unlock(str(locked.lock_id))
    folder_lock.forget_killed()
    return run()


def left_by_killed(error: StateLocked, killed: Mapping[str, Any] | None) -> bool:
    """Tell whether a state's lock is that of a command that was killed in this folder, and so holds nothing any more.

    Parameters
    ----------
    error
        What the next command was told.
    killed
        The killed command, as `FolderLock.killed` knows it.
    """
    if killed is None or not error.lock_id or not _is_here(error.holder or ""):
        return False
    created = re.match(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.\d+)? \+0000 UTC", error.since or "")
    if created is None:
        return False
    at = datetime.datetime.fromisoformat(f"{created[1]}T{created[2]}+00:00").timestamp()
    # Terraform takes the lock first; others' locks, from this user on a machine of the same name, are hardly from these seconds.
    return -1 <= at - float(killed["started_at"]) <= _LOCKING_SECONDS


def _is_here(holder: str) -> bool:
    try:
        return holder == f"{getuser()}@{socket.gethostname()}"
    except (OSError, KeyError):
        return False
