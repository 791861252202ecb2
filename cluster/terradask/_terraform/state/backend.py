"""What the places have in common where a state can lie: a file, or an object of S3."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from terradask._terraform.state.lock import locked_error
from terradask._terraform.state.lock_info import LockInfo
from terradask._terraform.state.model import StateInfo

#: What the name of a state ends with that was moved to another place.
ASIDE = ".migrated"

_POLL_SECONDS = 0.5


@dataclass(frozen=True)
class FoundState:
    """A state as it lies there."""

    #: Its bytes.
    content: bytes
    #: What they say.
    info: StateInfo
    #: What distinguishes it from another one at the same place, where there is that: an ETag.
    version: str | None = None


@dataclass(frozen=True)
class LockWait:
    """What to do where a lock is held."""

    #: The stack's folder.
    folder: Path
    #: The command of this folder that was killed, as `FolderLock.killed` knows it.
    killed: Mapping[str, Any] | None
    #: How long to wait for the lock's holder.
    limit_seconds: float
    #: Called once, before waiting.
    on_wait: Callable[[str], None]
    #: Called with the place, lock and proof before a killed command's lock in S3 is broken.
    on_unlock: Callable[[Any, LockInfo, str], None] = lambda place, lock, proof: None


def until_free(
    take: Callable[[], bool], holder: Callable[[], LockInfo | None], waiting: LockWait
) -> None:
    """Take a lock, waiting for its holder. Raises `StateLocked`."""
    deadline = time.monotonic() + waiting.limit_seconds
    is_told = False
    while not take():
        lock = holder()
        if lock is None:
            continue
        if time.monotonic() >= deadline:
            raise locked_error(lock, {"verb": "state", "folder": str(waiting.folder)})
        if not is_told:
            waiting.on_wait(
                f"waiting up to {waiting.limit_seconds:.0f} s: the state is {lock.describe()}"
            )
            is_told = True
        time.sleep(_POLL_SECONDS)
