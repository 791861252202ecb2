"""Forks the embedded AWS's daemons from one process that has imported what they need.

``python -m tests.forked_daemons FD`` is that process; it ends with the tests that started it. A
daemon is the same code as ever, with the same arguments, environment and folder; that it also
starts from nothing is what `tests/simulator/test_embedded_aws_lifecycle.py` tests.
"""

from __future__ import annotations

import contextlib
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
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import IO, Any, NoReturn

_SIZE = struct.Struct("!I")
_SERVICES = (
    "autoscaling",
    "ec2",
    "iam",
    "logs",
    "resourcegroupstaggingapi",
    "s3",
    "secretsmanager",
    "service-quotas",
    "ssm",
    "sts",
)


class ForkedDaemon:
    """A daemon's process, as far as `subprocess.Popen` is used of it."""

    def __init__(self, pid: int, stdout: IO[bytes], status: int) -> None:
        self.pid, self.stdout = pid, stdout
        self.returncode: int | None = None
        self._status = status
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """Return how it ended, or None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended."""
        with self._lock:
            if self.returncode is None:
                if not select.select([self._status], [], [], timeout)[0]:
                    raise subprocess.TimeoutExpired("terradask_simulator.daemon", timeout or 0)
                said = os.read(self._status, _SIZE.size)
                os.close(self._status)
                # Nothing is said where the process that forks has been killed.
                self.returncode = os.waitstatus_to_exitcode(_SIZE.unpack(said)[0]) if said else -9
            return self.returncode

    def kill(self) -> None:
        """End it at once."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


class DaemonForker:
    """Has daemons forked; the process that does it starts with the first one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._channel: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def spawn(
        self, arguments: Sequence[str], environ: Mapping[str, str], log: IO[bytes]
    ) -> ForkedDaemon:
        """Start a daemon; stands in for `terradask_simulator.process.spawn`."""
        asked = json.dumps([list(arguments), dict(environ), str(Path.cwd())]).encode()
        out, its_out = os.pipe()
        status, its_status = os.pipe()
        try:
            with self._lock:
                channel = self._connected()
                socket.send_fds(
                    channel, [_SIZE.pack(len(asked))], [its_out, log.fileno(), its_status]
                )
                channel.sendall(asked)
                (pid,) = _SIZE.unpack(channel.recv(_SIZE.size, socket.MSG_WAITALL))
        finally:
            os.close(its_out)
            os.close(its_status)
        return ForkedDaemon(pid, os.fdopen(out, "rb"), status)

    def _connected(self) -> socket.socket:
        if self._channel is None:
            self._channel, far = socket.socketpair()
            with far:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", __name__, str(far.fileno())],
                    cwd=Path(__file__).parents[1],
                    pass_fds=[far.fileno()],
                    start_new_session=True,
                )
        return self._channel

    def close(self) -> None:
        """End the process that forks."""
        if self._channel is not None and self._process is not None:
            self._channel.close()
            self._process.wait(30)
            self._channel = self._process = None


def _preload() -> ModuleType:
    from terradask_simulator.aws.embedded import MOTO_SETTINGS

    os.environ.update(MOTO_SETTINGS)
    from moto.core.base_backend import AccountSpecificBackend
    from moto.core.utils import get_service_model
    from moto.moto_server import werkzeug_app

    from terradask_simulator import daemon
    from terradask_simulator.aws.iam import reference

    assert werkzeug_app
    for service in _SERVICES:
        name = service.replace("-", "")
        import_module(f"moto.{name}.responses")
        import_module(f"moto.{name}.urls")
        get_service_model(service)
    AccountSpecificBackend.get_session().get_available_regions("ec2")
    reference.is_known("ec2:RunInstances")
    gc.collect()
    gc.freeze()
    return daemon


def _serve(channel: socket.socket) -> None:
    daemon = _preload()
    woken, wakes = socket.socketpair()
    for end in (woken, wakes):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    ends: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([channel, woken], [], [])
        if woken in ready:
            with contextlib.suppress(BlockingIOError):
                woken.recv(4096)
            _reap(ends)
        if channel not in ready:
            continue
        size, files, _, _ = socket.recv_fds(channel, _SIZE.size, 3)
        if not size:
            return
        asked = channel.recv(_SIZE.unpack(size)[0], socket.MSG_WAITALL)
        pid = os.fork()
        if not pid:
            _become(daemon, json.loads(asked), files)
        for file in files[:2]:
            os.close(file)
        ends[pid] = files[2]
        channel.sendall(_SIZE.pack(pid))


def _reap(ends: dict[int, int]) -> None:
    for pid in list(ends):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            end = ends.pop(pid)
            with contextlib.suppress(BrokenPipeError):
                os.write(end, _SIZE.pack(status))
            os.close(end)


def _become(daemon: ModuleType, asked: Any, files: list[int]) -> NoReturn:
    arguments, environ, folder = asked
    parent = os.getppid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    os.umask(0o077)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, file in enumerate([nothing, files[0], files[1]]):
        os.dup2(file, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    # What was imported before the fork has its numbers from there.
    from moto.moto_api._internal import mock_random

    random.seed()
    mock_random.seed()
    if "--parent" in arguments:
        arguments[arguments.index("--parent") + 1] = str(parent)
    sys.exit(daemon.main(arguments))


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
