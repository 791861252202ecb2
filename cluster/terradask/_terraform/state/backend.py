"""What the places have in common where a state can lie: a file, or an object of S3."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

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


#: Called with place, lock and proof before the killed command's lock is broken.
OnUnlock = Callable[["StateBackend", LockInfo, str], None]


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
    on_unlock: OnUnlock = lambda place, lock, proof: None


class StateBackend(Protocol):
    """Where a state lies, or may lie."""

    @property
    def name(self) -> str:
        """What a user calls it: a path, or ``s3://bucket/key``."""
        ...

    def read(self) -> FoundState | None:
        """Return the state; None where there is none."""
        ...

    def write(self, content: bytes, *, over: FoundState | None) -> None:
        """Write a state, whole or not at all, unless something else than `over` is here."""
        ...

    def set_aside(self) -> str:
        """Take the state away, keeping it under another name, and return that."""
        ...

    def held(self, waiting: LockWait) -> contextlib.AbstractContextManager[None]:
        """Hold the lock that Terraform takes, too."""
        ...

    def lock(self) -> LockInfo | None:
        """Return the lock; None where it is free."""
        ...


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
