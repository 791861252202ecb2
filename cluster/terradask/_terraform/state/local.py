"""A state in a file of this machine: read, write and lock it without Terraform."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from terradask._terraform.state.backend import ASIDE, FoundState, LockWait, until_free
from terradask._terraform.state.lock_info import LockInfo
from terradask._terraform.state.model import StateInfo, read_state_file, state_of
from terradask_stacks.files import write_whole


class LocalBackend:
    """A state in a file of this machine.

    The kernel keeps the lock on it, and takes it away with the process that holds it: it never
    outlives its owner.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = str(path)
        self._stream: IO[bytes] | None = None

    def read(self) -> FoundState | None:
        """Return the state; None where there is none."""
        document = (
            read_state_file(self.path)
            if self._stream is None
            else state_of(self._held_text(), str(self.path))
        )
        if not document:
            return None
        return FoundState(
            self._held_text() if self._stream else self.path.read_bytes(),
            StateInfo.from_json(document),
        )

    def write(self, content: bytes, *, over: FoundState | None) -> None:
        """Put a state here, in one step; `over` is as it was read under the lock."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.path, content, sync=True)
        self._release()

    def set_aside(self) -> str:
        """Rename the file; an earlier one of that name stays."""
        names = (
            self.path.with_name(f"{self.path.name}{ASIDE}{f'-{n}' if n else ''}")
            for n in range(1_000_000)
        )
        aside = next(name for name in names if not name.exists())
        self.path.rename(aside)
        return str(aside)

    @contextlib.contextmanager
    def held(self, waiting: LockWait) -> Iterator[None]:
        """Hold the lock on the file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.touch(mode=0o600)
        with self.path.open("ab+") as stream:
            until_free(lambda: self._take(stream), lambda: self._holder() or LockInfo(), waiting)
            self._stream = stream
            try:
                yield
            finally:
                self._release()

    def lock(self) -> LockInfo | None:
        """Return the lock; its holder is alive."""
        if not self.path.exists():
            return None
        with self.path.open("ab+") as stream:
            return None if self._take(stream) else self._holder() or LockInfo()

    def _take(self, stream: IO[bytes]) -> bool:
        try:
            fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def _holder(self) -> LockInfo | None:
        try:
            return LockInfo.from_json(
                self.path.with_name(f".{self.path.name}.lock.info").read_bytes()
            )
        except OSError:
            return None

    def _held_text(self) -> bytes:
        # Through the stream that holds the lock: closing another one would release it.
        assert self._stream is not None
        self._stream.seek(0)
        return self._stream.read()

    def _release(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            fcntl.lockf(stream, fcntl.LOCK_UN)
