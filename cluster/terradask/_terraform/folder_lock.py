"""One process at a time in one stack's folder."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from terradask._common.forked import left_to_parent
from terradask._common.json_text import read_object
from terradask._common.processes import is_alive, process_started, this_machine
from terradask.errors import FolderBusy

_POLL_SECONDS = 0.1


class FolderLock:
    """A lock on a stack's folder, held by processes; the same thread may take it again.

    Raises `FolderBusy`.

    Commands that change something inherit the lock's descriptor: when this process is killed, the
    folder stays locked until the Terraform that it left behind has finished. What a killed
    Terraform left behind has nothing to finish: it is ended.
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
        #: The last command killed here: ``command``, and ``started_at`` in seconds since the epoch.
        self.killed: Mapping[str, Any] | None = None
        #: The last command here that ended by itself: the same, and ``ended_at``.
        self.ended: Mapping[str, Any] | None = None

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The descriptor that keeps the lock, while it is held."""
        return (self._file.fileno(),) if self._file is not None else ()

    def note(self, command: str, pid: int | None = None) -> None:
        """Write down what is being done, for those who wait, and those who come after a kill."""
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
        """Write down that a command has ended, or that it was killed."""
        if exit_code < 0:
            self.killed = self._noted
        else:
            self.ended = {**self._noted, "ended_at": time.time()}
        self.note("terradask")

    def forget_killed(self) -> None:
        """Write down that what a killed command left is in order again."""
        self.killed = None
        self.note("terradask")

    @contextlib.contextmanager
    def holding(self, what: str) -> Iterator[None]:
        """Write down that this process holds a state's lock, to be broken if it is killed."""
        self.note(what, os.getpid())
        try:
            yield
        except BaseException:
            # Nothing but a kill leaves our locks behind.
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
        """Take the lock."""
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
        """Give it back."""
        self._depth -= 1
        if self._depth == 0 and self._file is not None:
            # Closed, not unlocked: a Terraform that outlives us shares the lock and shall keep it.
            self._file.close()
            self._file = None
        self._thread_lock.release()

    def _take(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # A link would have what it leads to emptied.
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        stream = os.fdopen(os.open(self._path, flags, 0o666), "a+", encoding="utf-8")
        try:
            self._wait_for(stream)
        except BaseException:
            stream.close()
            raise
        self._file = stream
        earlier = read_object(self._path)
        # The lock is held here now: a command that is noted as running is dead.
        self.killed = earlier if earlier.get("child") else earlier.get("killed")
        self.note("terradask")

    def _wait_for(self, stream: IO[str]) -> None:
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
        # The process that started Terraform may be gone while Terraform still works.
        pid = next((p for p in (holder.get("pid"), holder.get("child")) if p and is_alive(p)), None)
        return FolderBusy(
            str(self._folder), pid=pid, command=holder.get("command"), waited_seconds=waited
        )


def _end_left_behind(note: Mapping[str, Any]) -> bool:
    """End the providers that a killed Terraform left: they wait for ever, and hold the lock."""
    leader = note.get("child")
    # A group's number isn't reused while a process is in it: a new one proves it gone.
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
    """Close a child's copy of the descriptor: the lock would be held for as long as it lives."""
    stream, lock._file = lock._file, None
    if stream is not None:
        stream.close()


_HELD = left_to_parent(_leave)
