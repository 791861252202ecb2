"""Run a script with a time limit, and end it with every process that it has started."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

#: Most of a script's output that is shown; its file on the host has all of it.
SHOWN_BYTES = 256 * 2**10
#: Longest line that is shown, in bytes.
_LINE_BYTES = 4096
_LOOK_SECONDS = 0.1
#: How long to wait for killed processes: one that waits for a device can't end.
_GONE_SECONDS = 10.0
#: prctl(2): processes that lose their parent become children of this one.
_PR_SET_CHILD_SUBREAPER = 36


def describe_end(code: int | None, timeout_seconds: float) -> str:
    """Return in words how a script ended, by the result of `run_script`."""
    if code is None:
        return f"ran for {timeout_seconds:g} s and was killed, with all that it had started"
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


def run_script(
    path: Path,
    environ: Mapping[str, str],
    *,
    folder: Path,
    output: Path,
    timeout_seconds: float,
    show: Callable[[str], None],
) -> int | None:
    """Run a script by its first line, and show each line of its output. Return its exit code, for a
    signal its negative number, or None if it was killed at its time limit.

    Processes that it leaves behind go on, unless it is killed. They may write to `output`, so it
    is a file and no pipe.

    Raises `OSError` when it can't be run, for instance without its interpreter.
    """
    others = frozenset(_children(os.getpid()))
    output.parent.mkdir(parents=True, exist_ok=True)
    output.unlink(missing_ok=True)
    with os.fdopen(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as written:
        process = subprocess.Popen(
            [path],
            env=environ,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    shown = _Shown(output, show)
    end = time.monotonic() + timeout_seconds
    with _adopting():
        while process.poll() is None and time.monotonic() < end:
            shown.go_on()
            time.sleep(_LOOK_SECONDS)
        code = process.poll()
        if code is None:
            _kill_all(process, others)
    shown.finish()
    return code


@contextmanager
def _adopting() -> Iterator[None]:
    """Let orphans among this process's descendants become its children."""
    prctl = getattr(ctypes.CDLL(None), "prctl", lambda *_: None)  # Linux alone has it
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        prctl(_PR_SET_CHILD_SUBREAPER, 0)


def last_lines(output: Path, lines: int) -> list[str]:
    """Return the last lines of a script's output."""
    with output.open("rb") as stream:
        stream.seek(max(output.stat().st_size - lines * _LINE_BYTES, 0))
        return [
            line[:_LINE_BYTES].decode(errors="replace")
            for line in stream.read().splitlines()[-lines:]
        ]


class _Shown:
    """Shows a growing file's lines, up to `SHOWN_BYTES`."""

    def __init__(self, path: Path, show: Callable[[str], None]) -> None:
        self._path = path
        self._show = show
        self._at = 0

    def go_on(self) -> None:
        """Show the complete lines that are new."""
        for line in self._new(is_last=False):
            self._show(line)

    def finish(self) -> None:
        """Show the rest."""
        for line in self._new(is_last=True):
            self._show(line)
        if self._path.stat().st_size > SHOWN_BYTES:
            self._show(f"… {self._path} has all of it")

    def _new(self, *, is_last: bool) -> list[str]:
        with self._path.open("rb") as stream:
            stream.seek(self._at)
            new = stream.read(SHOWN_BYTES - self._at)
        kept = new if is_last else new[: new.rfind(b"\n") + 1]
        self._at += len(kept)
        return [line[:_LINE_BYTES].decode(errors="replace") for line in kept.splitlines()]


def _kill_all(process: subprocess.Popen[bytes], others: Collection[int]) -> None:
    """Kill a script's processes, also those that have left its session; not `others`."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    end = time.monotonic() + _GONE_SECONDS
    while (ours := set(_children(os.getpid())) - set(others)) and time.monotonic() < end:
        for pid in ours:
            for each in (*_below(pid), pid):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(each, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.02)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, children.read_text().split())
    return found


def _below(pid: int) -> list[int]:
    """Return the processes that descend from one."""
    return [each for child in _children(pid) for each in (child, *_below(child))]
