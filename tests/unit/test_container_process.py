"""Dask's process in a container: how it is started, spoken with and ended; and systemd's units."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from terradask_host.agent.child import DaskChild, child_environ
from terradask_host.agent.container import runtime
from terradask_host.agent.container.runtime import Container
from terradask_host.agent.event_queue import ChildEnded, ChildMessage, EventQueue
from terradask_host.agent.host import check_imported
from terradask_host.config import Paths
from terradask_host.errors import DaskFailed, VersionsDiffer
from terradask_host.registry import Image
from terradask_host.rules.policy import Exit
from terradask_host.units import container_service, container_socket
from terradask_modules import user_data

from ..waiting import HANG_SECONDS, eventually
from .host_facts import run_document

HOST_UNIT = Path(user_data.__file__).with_name("templates") / "terradask-host.service"
PREPARE = "import os,sys; os.environ['PREPARED'] = '1'; os.execvp(sys.argv[1], sys.argv[1:])"


class SocketActivation:
    """Does what systemd does at a socket with ``Accept=yes``: a shell for each connection, whose
    whole control group goes when it ends; here a process group.
    """

    def __init__(self, address: Path, command: tuple[str, ...] = ("/bin/sh", "-s")) -> None:
        address.parent.mkdir(parents=True, exist_ok=True)
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(address))
        self._listening.listen()
        self._command = command
        self.shells: list[subprocess.Popen[bytes]] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection:
                shell = subprocess.Popen(
                    self._command,
                    stdin=connection,
                    stdout=connection,
                    stderr=connection,
                    start_new_session=True,
                    env={"PATH": os.environ["PATH"]},
                )
            self.shells.append(shell)
            threading.Thread(target=self._clear_after, args=(shell,)).start()

    @staticmethod
    def _clear_after(shell: subprocess.Popen[bytes]) -> None:
        shell.wait()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join()
        for shell in self.shells:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    made = Paths(tmp_path)
    made.scratch.mkdir(parents=True)
    return made


@pytest.fixture
def systemd(paths: Paths) -> Iterator[SocketActivation]:
    made = SocketActivation(paths.container_socket)
    yield made
    made.close()


def image(**environ: str) -> Image:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return Image((), (sys.executable, "-c", PREPARE), {"PATH": path, **environ})


def start(
    container: Container, paths: Paths, events: EventQueue, log: list[str], **environ: str
) -> DaskChild:
    whole = child_environ(
        container.environ, home=paths.state, region="us-east-1", run_environ=environ
    )
    return DaskChild(container.start(whole, paths.scratch), events=events, log=log.append)


def drain(events: EventQueue, number: int) -> tuple[list[ChildMessage], Exit]:
    said: list[ChildMessage] = []
    while (event := events.next(HANG_SECONDS)) is not None:
        if isinstance(event, ChildEnded) and event.child == number:
            return said, event.end
        if isinstance(event, ChildMessage):
            said.append(event)
    raise AssertionError(f"no end; said {said}")


def test_dask_is_run_by_the_images_entry_point_with_its_variables(
    paths: Paths, systemd: SocketActivation
) -> None:
    events, log = EventQueue(), list[str]()
    container = Container(image(OF_IMAGE='it\'s "here"\n$HOME'), paths, log.append)
    child = start(container, paths, events, log, OF_RUN="x", **{"no.name": "y"})
    first = events.next  # the process waits for its documents
    child.send({"role": "worker", "dask_config": {}, "host_config": {}})
    imported = first(HANG_SECONDS)
    assert isinstance(imported, ChildMessage)
    assert imported.event == "imported"
    running = next(
        path
        for path in Path("/proc").glob("[0-9]*")
        if _reads(path / "cmdline", b"launch.py", str(paths.keys).encode())
    )
    variables = dict(
        line.split("=", 1) for line in (running / "environ").read_text().split("\0") if line
    )
    assert variables["OF_IMAGE"] == 'it\'s "here"\n$HOME'
    assert (variables["OF_RUN"], variables["PREPARED"]) == ("x", "1")
    assert variables["TINI_SUBREAPER"] == "1"
    assert "no.name" not in variables
    assert any("no.name" in line for line in log)
    assert (running / "cwd").resolve() == paths.scratch
    child.kill()
    assert not list(paths.keys.glob("container-*"))


def _reads(path: Path, *wanted: bytes) -> bool:
    try:
        content = path.read_bytes()
    except OSError:
        return False
    return all(each in content for each in wanted)


def test_what_goes_wrong_inside_is_said_with_its_exit_code(
    paths: Paths, systemd: SocketActivation
) -> None:
    events, log = EventQueue(), list[str]()
    child = start(Container(image(), paths, log.append), paths, events, log)
    child.send({"role": "worker", "dask_config": {}, "host_config": {}})
    child.send(
        {
            "class": "nowhere.Worker",
            "security": {},
            "scheduler": "tls://127.0.0.1:9",
            "workers": [{}],
        }
    )
    said, end = drain(events, child.number)
    child.kill()
    assert [each.event for each in said] == ["imported", "failed"]
    assert end.code == 1
    assert end.reason is not None
    assert "nowhere" in end.reason
    assert any("Traceback" in line for line in log)


def test_an_image_without_python_says_so(paths: Paths, systemd: SocketActivation) -> None:
    events, log = EventQueue(), list[str]()
    container = Container(Image((), (), {"PATH": "/nowhere"}), paths, log.append)
    child = start(container, paths, events, log)
    said, end = drain(events, child.number)
    child.kill()
    assert (said, end.code) == ([], 127)
    assert end.last_line is not None
    assert "python" in end.last_line


def test_killing_ends_the_shell_and_what_it_started(
    paths: Paths, systemd: SocketActivation
) -> None:
    events, log = EventQueue(), list[str]()
    child = start(Container(image(), paths, log.append), paths, events, log)
    (shell,) = eventually(lambda: systemd.shells)
    child.kill()
    _, end = drain(events, child.number)
    assert end.code == -signal.SIGKILL
    assert shell.wait(HANG_SECONDS) == -signal.SIGKILL
    child.send({"do": "leave"})


def test_the_process_ends_when_the_host_program_goes(
    paths: Paths, systemd: SocketActivation
) -> None:
    events, log = EventQueue(), list[str]()
    process = Container(image(), paths, log.append).start(os.environ, paths.scratch)
    child = DaskChild(process, events=events, log=log.append)
    process._socket.shutdown(socket.SHUT_WR)  # type: ignore[attr-defined]
    said, end = drain(events, child.number)
    assert (said, end.code) == ([], 1)
    child.kill()


def test_several_run_at_a_time(paths: Paths, systemd: SocketActivation) -> None:
    events, log = EventQueue(), list[str]()
    container = Container(image(), paths, log.append)
    two = [start(container, paths, events, log) for _ in range(2)]
    for child in two:
        child.kill()
    eventually(lambda: all(shell.poll() is not None for shell in systemd.shells))
    assert len(systemd.shells) == 2


@pytest.mark.parametrize("seconds", [0.0, 0.5])
def test_a_container_that_systemd_can_not_start_is_said(
    paths: Paths, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """Also when it has ended before it is told what to run."""
    connect = runtime._connected

    def connect_late(address: Path) -> socket.socket:
        connected = connect(address)
        time.sleep(seconds)
        return connected

    monkeypatch.setattr(runtime, "_connected", connect_late)
    refusing = SocketActivation(
        paths.container_socket, ("/bin/sh", "-c", "echo no such image; exit 3")
    )
    try:
        with pytest.raises(DaskFailed, match="doesn't start") as caught:
            Container(image(), paths, print).start({}, paths.scratch)
        assert caught.value.given == "no such image"
        assert "journalctl" in str(caught.value.advice)
    finally:
        refusing.close()


def test_a_host_of_an_older_network_says_what_to_do(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "START_SECONDS", 0.3)
    with pytest.raises(DaskFailed, match="creates no container") as caught:
        Container(image(), paths, print).start({}, paths.scratch)
    assert "terradask apply network" in str(caught.value.advice)


def test_a_container_has_the_limits_of_the_host_programs_unit() -> None:
    host = HOST_UNIT.read_text()
    made = container_service(host, Paths(Path("/"))).splitlines()
    left_out = {
        "Type",
        "ExecStartPre",
        "ExecStart",
        "ExecStopPost",
        "Restart",
        "RestartSec",
        "KillMode",
        "TimeoutStopSec",
        "RuntimeDirectory",
        "RuntimeDirectoryMode",
        "StateDirectory",
        "StateDirectoryMode",
        "ReadWritePaths",
        "ProtectSystem",
        "ProtectHome",
        "RemoveIPC",
    }
    service = host.partition("[Service]")[2].partition("[Install]")[0].splitlines()
    made.remove("Type=exec")
    limits = [line for line in service if line and not line.startswith("#")]
    for line in limits:
        assert (line in made) == (line.partition("=")[0] not in left_out), line
    assert {"User=terradask", "NoNewPrivileges=yes", "CapabilityBoundingSet="} <= set(made)
    # Nothing of the unit is the host program's to choose.
    assert not [line for line in made if "%" in line]
    assert "SocketMode=0660" in container_socket(Paths(Path("/"))).splitlines()


def test_an_image_with_other_versions_than_the_client_is_refused() -> None:
    run = replace(
        run_document(), container="ghcr.io/dask/dask:1", packages={"dask": "2", "distributed": "3"}
    )
    own = {"dask": "2", "distributed": "3000"}
    with pytest.raises(VersionsDiffer, match=r"python 3\.11, distributed 3000") as caught:
        check_imported({"python": "3.11", "packages": own}, run)
    assert "python 3.12, as the client has" in str(caught.value.allowed)
    run = replace(run, packages=own)
    check_imported({"python": "3.12", "packages": own}, run)
