"""Allow one process at a time in one stack's folder."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from terradask._common.forked import left_to_parent
from terradask._common.json_text import read_object
from terradask._common.processes import is_alive, process_started, this_machine
from terradask._terraform.platforms import refused
from terradask.errors import FolderBusy

_POLL_SECONDS = 0.1


class FolderLock:
    """A lock on a stack's folder between processes; reentrant within a thread.

    Raises `FolderBusy`; `SetupError` on Windows, which can't give an open file's lock to a child.

    Commands with changes inherit the lock's descriptor: when this process is killed, the folder
    stays locked until its Terraform has finished. A killed Terraform's leftovers have nothing to
    finish: they are ended.
    """

    def __init__(
        self,
        folder: Path,
        *,
        limit_seconds: float,
        on_wait: Callable[[FolderBusy], None] | None = None,
    ) -> None:
        self._folder = folder
        self._path = folder.with_name(f".{folder.name}.lock")
        self._limit_seconds = limit_seconds
        self._on_wait = on_wait
        self._thread_lock = threading.RLock()
        self._depth = 0
        self._file: IO[str] | None = None
        self._noted: Mapping[str, Any] = {}
        _HELD.add(self)
        #: The last killed command: ``command``, and ``started_at`` in seconds since the epoch.
        self.killed: Mapping[str, Any] | None = None
        #: The last command that ended itself: the same, and ``ended_at``.
        self.ended: Mapping[str, Any] | None = None

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The descriptor of the held lock."""
        return (self._file.fileno(),) if self._file is not None else ()

    def note(self, command: str, pid: int | None = None) -> None:
        """Record the current action, for waiting processes, and for a command after a kill."""
        started = None if pid is None else process_started(pid)
        self._write(
            {
                **this_machine(),
                "pid": os.getpid(),
                "child": pid,
                "child_started": started,
                "command": command,
                "started_at": time.time(),
            }
        )

    def note_end(self, exit_code: int) -> None:
        """Record that a command has ended, or was killed."""
        if exit_code < 0:
            self.killed = self._noted
        else:
            self.ended = {**self._noted, "ended_at": time.time()}
        self.note("terradask")

    def forget_killed(self) -> None:
        """Record that a killed command's leftovers are repaired."""
        self.killed = None
        self.note("terradask")

    @contextlib.contextmanager
    def holding(self, what: str) -> Iterator[None]:
        """Record that this process holds a state's lock, to be broken if the process is killed."""
        self.note(what, os.getpid())
        try:
            yield
        except BaseException:
            # Only a kill leaves terradask's own lock behind.
            self.note("terradask")
            raise
        self.forget_killed()

    def _write(self, noted: Mapping[str, Any]) -> None:
        self._noted = noted
        if self._file is None:
            return
        self._file.seek(0)
        self._file.truncate()
        json.dump({**noted, "killed": self.killed}, self._file)
        self._file.flush()

    def __enter__(self) -> FolderLock:
        """Acquire the lock."""
        self._thread_lock.acquire()
        try:
            if self._depth == 0:
                self._take()
            self._depth += 1
        except BaseException:
            self._thread_lock.release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Release the lock."""
        self._depth -= 1
        if self._depth == 0 and self._file is not None:
            # Closed, not unlocked: a Terraform that outlives this process shares the lock.
            self._file.close()
            self._file = None
        self._thread_lock.release()

    def _take(self) -> None:
        if sys.platform == "win32":
            raise refused()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # With a link, the target would be truncated.
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        stream = os.fdopen(os.open(self._path, flags, 0o666), "a+", encoding="utf-8")
        try:
            self._wait_for(stream)
        except BaseException:
            stream.close()
            raise
        self._file = stream
        earlier = read_object(self._path)
        # This process holds the lock now: a command recorded as running is dead.
        self.killed = earlier if earlier.get("child") else earlier.get("killed")
        self.note("terradask")

    def _wait_for(self, stream: IO[str]) -> None:
        if sys.platform == "win32":
            raise refused()
        import fcntl

        started = time.monotonic()
        is_told = ended = False
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if not ended and _end_left_behind(read_object(self._path)):
                    ended = True
                    time.sleep(_POLL_SECONDS)
                    continue
                waited = time.monotonic() - started
                busy = self._busy(waited)
                if waited >= self._limit_seconds:
                    raise busy from error
                if not is_told and self._on_wait is not None:
                    self._on_wait(busy)
                is_told = True
                time.sleep(_POLL_SECONDS)
            else:
                return

    def _busy(self, waited: float) -> FolderBusy:
        holder = read_object(self._path)
        # The process that started Terraform may have ended while Terraform still works.
        pid = next((p for p in (holder.get("pid"), holder.get("child")) if p and is_alive(p)), None)
        return FolderBusy(
            str(self._folder), pid=pid, command=holder.get("command"), waited_seconds=waited
        )


def _end_left_behind(note: Mapping[str, Any]) -> bool:
    """End the providers of a killed Terraform, which wait forever and hold the lock."""
    if sys.platform == "win32":
        raise refused()
    leader = note.get("child")
    # A group's id isn't reused while it has a process: a new process proves that it is gone.
    if (
        not leader
        or is_alive(leader)
        or any(note.get(key) != this_machine()[key] for key in ("host", "machine_id", "boot_id"))
    ):
        return False
    try:
        os.killpg(leader, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _leave(lock: FolderLock) -> None:
    """Close a child's copy of the descriptor, which would hold the lock while the child lives."""
    stream, lock._file = lock._file, None
    if stream is not None:
        stream.close()


_HELD = left_to_parent(_leave)
