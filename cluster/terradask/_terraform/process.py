"""Run one command in its own process group, read its lines, stop it cleanly."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Any

from terradask._terraform.platforms import refused

_POLL_SECONDS = 0.02

#: Longest wait for a good moment before a requested stop.
PATIENCE_SECONDS = 10.0

#: Time for a stopping command to end after another interrupt.
GRACE_SECONDS = 5.0

_ERROR_TEXT_LIMIT = 64 * 1024


@dataclass(frozen=True)
class Completed:
    """A finished command."""

    #: Its exit code; negative: ended by that signal.
    exit_code: int
    #: Its output, if captured.
    stdout: str
    #: Its errors, or the end of long ones.
    stderr: str
    #: Whether a stop was requested.
    cancelled: bool = False


def capture(command: Sequence[str], *, cwd: Path, environ: Mapping[str, str]) -> Completed:
    """Run a read-only command, and return its output."""
    process = _start(
        command, cwd=cwd, environ=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        stdout, stderr = process.communicate()
    except BaseException:
        _kill_group(process)
        process.communicate()
        raise
    return Completed(process.returncode, _text(stdout), _text(stderr)[-_ERROR_TEXT_LIMIT:])


def follow(
    command: Sequence[str],
    *,
    cwd: Path,
    environ: Mapping[str, str],
    on_line: Callable[[str], None],
    cancelled: threading.Event,
    cancelled_again: threading.Event | None = None,
    on_stopping: Callable[[], None],
    pass_fds: Sequence[int] = (),
    on_started: Callable[[int], None] = lambda pid: None,
    on_ended: Callable[[int], None] = lambda exit_code: None,
    may_stop: Callable[[], bool] = lambda: True,
    patience_seconds: float = PATIENCE_SECONDS,
    grace_seconds: float = GRACE_SECONDS,
) -> Completed:
    """Run a command with changes, and pass on its lines as they come. `cancelled` and
    `cancelled_again` are for other threads what a first and a second Ctrl-C are here.

    Raises `KeyboardInterrupt`.

    The output goes to unlinked files instead of pipes: if this process were killed, a pipe would
    break, and Terraform would die at its next line, with its state unwritten and locked. With a
    file it finishes its work. A file needn't be drained, either.
    """
    with _output_file() as (out, lines_of_out), _output_file() as (err, lines_of_err):
        reader = _Lines(lines_of_out)
        interrupts = HeldInterrupts()
        try:
            process = _start(
                command, cwd=cwd, environ=environ, stdout=out, stderr=err, pass_fds=pass_fds
            )
        except BaseException:
            interrupts.let_through()
            raise
        stop = _Stop(
            process=process,
            may_stop=may_stop,
            patience_seconds=patience_seconds,
            grace_seconds=grace_seconds,
        )
        try:
            try:
                on_started(process.pid)
            finally:
                interrupts.let_through()
            while _step(process, reader, on_line):
                if cancelled.is_set() and not stop.requested:
                    stop.request()
                    on_stopping()
                if cancelled_again is not None and cancelled_again.is_set():
                    cancelled_again.clear()
                    stop.request_again()
                stop.act()
                time.sleep(_POLL_SECONDS)
        except BaseException:
            if not stop.requested:
                stop.request()
                with contextlib.suppress(Exception):
                    on_stopping()
            else:
                stop.request_again()
            _until_stopped(process, reader, on_line, stop)
            raise
        finally:
            if process.returncode is not None:
                if process.returncode < 0:
                    # Terraform's providers don't end on their own.
                    _kill_group(process)
                on_ended(process.returncode)
        return Completed(
            process.returncode, "", _text(lines_of_err.read())[-_ERROR_TEXT_LIMIT:], stop.requested
        )


def _start(
    command: Sequence[str],
    *,
    cwd: Path,
    environ: Mapping[str, str],
    stdout: int,
    stderr: int,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a command in its own session, so that Ctrl-C reaches only this process."""
    return subprocess.Popen(
        command,
        cwd=cwd,
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
        pass_fds=tuple(pass_fds),
        # States and plans show the structure to all who can read them.
        umask=0o077,
    )


@dataclass(kw_only=True, eq=False)
class _Stop:
    """Ask a command to stop, once, at a good moment; kill it only after repeated requests.

    A second interrupt ends the wait for a good moment; one after the request starts the grace
    period; another one ends it.
    """

    process: subprocess.Popen[bytes]
    may_stop: Callable[[], bool]
    patience_seconds: float
    grace_seconds: float
    _signal_by: float | None = None
    _kill_by: float | None = None
    _signalled: bool = False

    @property
    def requested(self) -> bool:
        """Whether a stop was requested."""
        return self._signal_by is not None

    def request(self) -> None:
        """Handle the first request."""
        self._signal_by = time.monotonic() + self.patience_seconds

    def request_again(self) -> None:
        """Handle another request."""
        now = time.monotonic()
        if not self._signalled:
            self._signal_by = now
        else:
            self._kill_by = now + self.grace_seconds if self._kill_by is None else now

    def act(self) -> None:
        """Run the next due step."""
        now = time.monotonic()
        if (
            self._signal_by is not None
            and not self._signalled
            and (now >= self._signal_by or self.may_stop())
        ):
            self._signalled = True
            # Only the command: it stops its own children.
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGINT)
        if self._kill_by is not None and now >= self._kill_by:
            _kill_group(self.process)


def _step(process: subprocess.Popen[bytes], reader: _Lines, on_line: Callable[[str], None]) -> bool:
    """Pass on new lines, and return whether the command still runs."""
    # Polled before reading, so that the last lines are read too.
    ended = process.poll() is not None
    for line in reader.read(rest=ended):
        on_line(line)
    return not ended


def _until_stopped(
    process: subprocess.Popen[bytes], reader: _Lines, on_line: Callable[[str], None], stop: _Stop
) -> None:
    """Wait for the end through further interrupts, whatever the callback does."""
    runs = True
    while runs:
        try:
            stop.act()
            time.sleep(_POLL_SECONDS)
            with contextlib.suppress(Exception):
                _step(process, reader, on_line)
            runs = process.poll() is None
        except KeyboardInterrupt:
            stop.request_again()
    with contextlib.suppress(Exception):
        _step(process, reader, on_line)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    if sys.platform == "win32":
        raise refused()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def _output_file() -> Iterator[tuple[int, IO[bytes]]]:
    """Yield a descriptor to write to, and a file to read from, already unlinked."""
    descriptor, name = tempfile.mkstemp(prefix="terradask-")
    try:
        reader = Path(name).open("rb")  # noqa: SIM115  closed below; the name must go first
    finally:
        Path(name).unlink()
    try:
        yield descriptor, reader
    finally:
        os.close(descriptor)
        reader.close()


class _Lines:
    """Complete lines of a growing file."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._rest = b""

    def read(self, *, rest: bool) -> list[str]:
        """Return newly complete lines; with `rest`, an unfinished one as well."""
        *lines, self._rest = (self._rest + self._stream.read()).split(b"\n")
        if rest and self._rest:
            lines.append(self._rest)
            self._rest = b""
        return [_text(line).rstrip("\r") for line in lines]


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


# ---- holding Ctrl-C back while a process starts --------------------------------------------------


class HeldInterrupts:
    """Hold back SIGINT and SIGTERM, if Python handles them, until released.

    An interrupt inside ``subprocess.Popen`` would leave an unknown running child. Blocking the
    signals doesn't help: the child would inherit that. Outside the main thread, where no signal
    arrives, this does nothing.
    """

    def __init__(self) -> None:
        self._handlers: dict[int, Any] = {}
        self._came: list[int] = []
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if callable(signal.getsignal(number)):
                    self._handlers[number] = signal.signal(number, self._note)

    def let_through(self) -> None:
        """Restore the handlers, and handle held signals; a second call does nothing."""
        handlers, self._handlers = self._handlers, {}
        for number, handler in handlers.items():
            signal.signal(number, handler)
        came, self._came = self._came, []
        for number in came:
            os.kill(os.getpid(), number)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._came.append(number)
