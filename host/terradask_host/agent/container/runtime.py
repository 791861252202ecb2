"""Runs Dask's process in a container: systemd starts it in the image's files, with the limits of
the host program's own unit.

The host program has no right to create containers: it connects to a socket of systemd's, and only
chooses the command that runs in the image, as its own user. The units are in
`terradask_host.units`.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import select
import shlex
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from terradask_host.agent.dask_process import LAUNCHER, DaskProcess
from terradask_host.config import Paths
from terradask_host.errors import DaskFailed
from terradask_host.registry import Image

#: From the connection to the first line from inside.
START_SECONDS = 30.0
_END_SECONDS = 10.0
#: Docker's default, for images without a PATH.
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: The image's tini isn't process 1, and must adopt orphans all the same.
_DEFAULTS = {"PATH": _PATH, "TINI_SUBREAPER": "1"}
#: Names that a shell can set.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Container:
    """An unpacked image, whose entry point starts Dask processes."""

    def __init__(self, image: Image, paths: Paths, log: Callable[[str], None]) -> None:
        self._image, self._paths, self._log = image, paths, log
        self._numbers = itertools.count(1)

    @property
    def environ(self) -> Mapping[str, str]:
        """The image's variables."""
        return {**_DEFAULTS, **self._image.environ}

    def __str__(self) -> str:
        """Return its entry point."""
        return shlex.join(self._image.entry_point) or "no entry point"

    def start(self, environ: Mapping[str, str], folder: Path) -> DaskProcess:
        """Start a process. Raises `DaskFailed`."""
        unset = [name for name in environ if not _NAME.fullmatch(name)]
        if unset:
            self._log(f"the container doesn't get variables of such names: {', '.join(unset)}")
        own = self._paths.keys / f"container-{next(self._numbers)}"
        shutil.rmtree(own, ignore_errors=True)
        own.mkdir(mode=0o700, parents=True)
        events = own / "events"
        os.mkfifo(events, 0o600)
        command = [*self._image.entry_point, "python", "-P", str(LAUNCHER), str(events)]
        kept = {name: value for name, value in environ.items() if name not in unset}
        script = start_script(command, kept, folder=folder, events=events)
        return _ContainerProcess(self._paths.container_socket, script, events)


def start_script(
    command: list[str], environ: Mapping[str, str], *, folder: Path, events: Path
) -> bytes:
    """Return shell commands that run a command in the container and report its start and end.

    They form one group, which the shell reads completely before the command reads the same socket.
    """
    exports = "".join(
        f"export {name}={shlex.quote(value)}\n" for name, value in sorted(environ.items())
    )
    return (
        "{\n"
        f"cd {shlex.quote(str(folder))} && exec 3>{shlex.quote(str(events))} || exit 1\n"
        """printf '{"event": "started", "pid": %d}\\n' $$ >&3\n"""
        f"{exports}"
        f"{shlex.join(command)} 3>&-\n"
        """printf '{"event": "exited", "code": %d}\\n' $? >&3\n"""
        "exit\n"
        "}\n"
    ).encode()


class _ContainerProcess:
    """The shell that systemd started for a connection, and its command."""

    def __init__(self, address: Path, script: bytes, events: Path) -> None:
        self._folder = events.parent
        self._code: int | None = None
        self._over = threading.Event()
        self._socket = _connected(address)
        try:
            # A command that has ended is detected by its silence, with its last output.
            with contextlib.suppress(ConnectionError):
                self._socket.sendall(script)
            self._events = os.fdopen(
                os.open(events, os.O_RDONLY | os.O_NONBLOCK), encoding="utf-8", errors="replace"
            )
            try:
                self._pid = self._started()
            except BaseException:
                self._events.close()
                raise
        except BaseException:
            self._close()
            raise

    def send(self, line: bytes) -> None:
        self._socket.sendall(line)

    def output(self) -> Iterator[bytes]:
        with contextlib.suppress(ConnectionError), self._socket.makefile("rb") as lines:
            yield from lines

    def events(self) -> Iterator[str]:
        try:
            with self._events as lines:
                for line in lines:
                    if (code := _code_of(line)) is None:
                        yield line
                    else:
                        self._code = code
        finally:
            self._over.set()

    def kill(self) -> None:
        if not self._over.is_set():
            # When the unit's main process, the shell, ends, systemd ends all its processes.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
        self.wait()
        self._close()

    def wait(self) -> int:
        self._over.wait(_END_SECONDS)
        return -signal.SIGKILL if self._code is None else self._code

    def _started(self) -> int:
        """Wait for the shell's first line and return its process id. Raises `DaskFailed`."""
        poll = select.poll()
        poll.register(self._events, select.POLLIN)
        poll.register(self._socket, select.POLLRDHUP)
        ready = dict(poll.poll(START_SECONDS * 1000))
        if not ready.get(self._events.fileno(), 0) & select.POLLIN:
            self._socket.settimeout(1.0)
            with contextlib.suppress(OSError):
                said = self._socket.recv(1000).decode(errors="replace").strip()
                raise DaskFailed(
                    "The container doesn't start.",
                    given=said or "no output",
                    allowed="an image of Linux with /bin/sh and python",
                    advice="journalctl -u 'terradask-container@*' on the host has the reason",
                )
            raise DaskFailed(f"The container doesn't start within {START_SECONDS:.0f} s.")
        os.set_blocking(self._events.fileno(), True)
        return int(json.loads(self._events.readline())["pid"])

    def _close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _code_of(line: str) -> int | None:
    """Return the exit code that the shell reports, in Python's form; None for another line."""
    try:
        facts = json.loads(line)
        code = int(facts["code"]) if facts["event"] == "exited" else None
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return None if code is None else 128 - code if code > 128 else code


def _connected(address: Path) -> socket.socket:
    """Return a connection, which makes systemd start a container. Raises `DaskFailed`."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        made = socket.socket(socket.AF_UNIX)
        try:
            made.connect(str(address))
        except OSError as error:
            made.close()
            # systemd creates the socket while this program starts.
            if time.monotonic() < deadline and isinstance(error, FileNotFoundError):
                time.sleep(0.2)
                continue
            raise DaskFailed(
                f"The host's systemd creates no container: {error}.",
                given=str(address),
                advice="terradask apply network: hosts of older networks can't create containers",
            ) from error
        else:
            return made
