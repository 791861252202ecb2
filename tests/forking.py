"""Forks processes from one that has imported what they need: most of the life of a short one is
imports.

``python -m tests.forking MODULE ADDRESS …`` is that process. It ends with the tests that started
it. ``MODULE`` has ``preload()``, and ``run(arguments)``, which a forked process is left to and
which returns its exit code.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NoReturn

_NUMBER = struct.Struct("!i")
_LENGTH = struct.Struct("!II")

#: Where descriptors wait for their places: above all that a process has here.
_HIGH = 900

#: Room for what a forked process shows of itself below ``/proc``, where it is looked for.
_ARGUMENTS_BYTES, _ENVIRON_BYTES = 4096, 65536


class Forked:
    """A process that was forked, as far as `subprocess.Popen` is used of it."""

    def __init__(self, pid: int, channel: int) -> None:
        self.pid = pid
        self.stdin: IO[bytes] | None = None
        self.stdout: IO[bytes] | None = None
        self.returncode: int | None = None
        self._channel = channel
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """Return how it ended, or None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended; another thread may do so too."""
        if not self._lock.acquire(timeout=-1 if timeout is None else timeout):
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        with contextlib.ExitStack() as held:
            held.callback(self._lock.release)
            if self.returncode is None:
                if not select.select([self._channel], [], [], timeout)[0]:
                    raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
                said = os.read(self._channel, _NUMBER.size)
                os.close(self._channel)
                # Nothing is said where the process that forks has been killed.
                self.returncode = os.waitstatus_to_exitcode(_NUMBER.unpack(said)[0]) if said else -9
            return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


def fork(
    address: str,
    arguments: Sequence[str],
    *,
    environ: Mapping[str, str],
    folder: Path,
    files: Mapping[int, int],
    umask: int = 0o077,
) -> Forked:
    """Have a process forked, in a session of its own, by the server at an address.

    `files` are the descriptors that it gets, by number, to the ones of this process.
    """
    asked = json.dumps([list(arguments), dict(environ), str(folder), umask, list(files)]).encode()
    channel = socket.socket(socket.AF_UNIX)
    channel.connect(address)
    socket.send_fds(channel, [_LENGTH.pack(len(asked), len(files))], list(files.values()))
    channel.sendall(asked)
    (pid,) = _NUMBER.unpack(channel.recv(_NUMBER.size, socket.MSG_WAITALL))
    return Forked(pid, channel.detach())


class ForkServer:
    """The process that forks; it starts when it is first asked for.

    Parameters
    ----------
    module
        What it forks.
    started
        Where it listens, if another process of the tests has started it.
    """

    def __init__(self, module: str, started: str = "") -> None:
        self._module = module
        self._started = started
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @property
    def address(self) -> str:
        """Where it listens."""
        with self._lock:
            if self._started:
                return self._started
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(prefix="terradask-forks-")
                self._start(f"{self._folder.name}/socket")
            return f"{self._folder.name}/socket"

    def _start(self, address: str) -> None:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(address)
            listener.listen(64)
            command = [sys.executable, "-P", "-m", __name__, self._module, str(listener.fileno())]
            inherited = {
                name: value
                for name, value in os.environ.items()
                if not name.startswith(("AWS_", "DASK_", "TERRADASK_"))
            }
            self._process = subprocess.Popen(
                [*command, "x" * _ARGUMENTS_BYTES],
                env={
                    **inherited,
                    "HOME": str(Path(address).parent),
                    "PYTHONPATH": str(Path(__file__).parents[1]),
                    "PYTHONUNBUFFERED": "1",
                    "ROOM": "x" * _ENVIRON_BYTES,
                },
                cwd=Path(address).parent,
                stdin=subprocess.PIPE,
                pass_fds=[listener.fileno()],
                start_new_session=True,
            )

    def close(self) -> None:
        """End the process that forks; what it forked goes on."""
        with self._lock:
            if self._process is not None and self._folder is not None:
                assert self._process.stdin is not None
                self._process.stdin.close()
                self._process.wait(30)
                self._folder.cleanup()
                self._process = self._folder = None


def _serve(module: Any, listener: socket.socket) -> None:
    """Fork until standard input ends."""
    module.preload()
    gc.collect()
    gc.freeze()
    woken, wakes = socket.socketpair()
    for end in (woken, wakes):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    channels: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([0, listener, woken], [], [])
        if woken in ready:
            with contextlib.suppress(BlockingIOError):
                woken.recv(4096)
            _reap(channels)
        if listener in ready:
            channel, _ = listener.accept()
            head, files, _, _ = socket.recv_fds(channel, _LENGTH.size, 16)
            length, count = _LENGTH.unpack(head)
            assert len(files) == count
            asked = json.loads(channel.recv(length, socket.MSG_WAITALL))
            pid = os.fork()
            if not pid:
                for mine in (listener, woken, wakes, channel, *channels.values()):
                    mine.detach()
                _become(module, asked, files)
            for file in files:
                os.close(file)
            channels[pid] = channel
            with contextlib.suppress(BrokenPipeError):
                channel.sendall(_NUMBER.pack(pid))
        if 0 in ready:
            return


def _reap(channels: dict[int, socket.socket]) -> None:
    for pid in list(channels):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            with channels.pop(pid) as channel, contextlib.suppress(OSError):
                channel.sendall(_NUMBER.pack(status))


def _become(module: Any, asked: Any, files: list[int]) -> NoReturn:
    arguments, environ, folder, umask, numbers = asked
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    os.umask(umask)
    os.chdir(folder)
    high = [os.dup2(file, _HIGH + number) for number, file in enumerate(files)]
    os.closerange(3, _HIGH)
    for file, number in zip(high, numbers, strict=True):
        os.dup2(file, number)
    os.closerange(_HIGH, os.sysconf("SC_OPEN_MAX"))
    os.environ.clear()
    os.environ.update(environ)
    _show(arguments, environ)
    # What was imported before the fork has these from there.
    random.seed()
    tempfile.tempdir = None
    sys.exit(module.run(arguments))


def _show(arguments: Sequence[str], environ: Mapping[str, str]) -> None:
    """Have ``/proc`` say of this process what it would say had it been started with these."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    for start, end, entries in (
        (int(fields[45]), int(fields[46]), [sys.executable, *arguments]),
        (int(fields[47]), int(fields[48]), [f"{name}={it}" for name, it in environ.items()]),
    ):
        text = b"".join(os.fsencode(entry) + b"\0" for entry in entries)
        ctypes.memmove(start, text.ljust(end - start, b"\0"), end - start)


if __name__ == "__main__":
    _serve(import_module(sys.argv[1]), socket.socket(fileno=int(sys.argv[2])))
