"""The Dask process: started, spoken with, ended; and what its Python may import."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from terradask_host.agent.agent import unpack_own_packages
from terradask_host.agent.child import DaskChild, child_environ
from terradask_host.agent.dask_process import LAUNCHER, DaskProcess, LocalPython
from terradask_host.agent.event_queue import ChildEnded, ChildMessage, EventQueue
from terradask_host.errors import DocumentChanged
from terradask_host.preload.local_names import VARIABLE
from terradask_host.rules.policy import Exit

from ..package_index import publish
from ..waiting import HANG_SECONDS


def test_the_dask_process_does_not_see_the_host_programs_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", "/opt/terradask/venv")
    assert "VIRTUAL_ENV" not in LocalPython(Path(sys.executable)).environ
    base = {"PATH": "/bin", "HOME": "/root", "AWS_REGION": "eu-west-1"}
    environ = child_environ(
        base, home=tmp_path, region="us-east-1", run_environ={"A": "1", "PATH": "/own"}
    )
    assert environ["HOME"] == str(tmp_path)
    assert environ["PATH"] == "/own"
    assert (environ["AWS_REGION"], environ["AWS_DEFAULT_REGION"]) == ("eu-west-1", "us-east-1")
    assert environ["A"] == "1"


def python_process(tmp_path: Path) -> DaskProcess:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    return LocalPython(Path(sys.executable)).start(environ, tmp_path)


def start_child(tmp_path: Path, events: EventQueue, log: list[str]) -> DaskChild:
    return DaskChild(python_process(tmp_path), events=events, log=log.append)


def drain(events: EventQueue, number: int) -> tuple[list[str], Exit]:
    said: list[str] = []
    while (event := events.next(HANG_SECONDS)) is not None:
        if isinstance(event, ChildEnded) and event.child == number:
            return said, event.end
        if isinstance(event, ChildMessage):
            said.append(event.event)
    raise AssertionError(f"no end; said {said}")


def test_a_process_that_can_not_start_says_why(tmp_path: Path) -> None:
    events, log = EventQueue(), list[str]()
    child = start_child(tmp_path, events, log)
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
    assert said == ["imported", "failed"]
    assert end.code == 1
    assert end.reason is not None
    assert "nowhere" in end.reason
    assert any("Traceback" in line for line in log)


def test_a_process_ends_when_the_host_program_goes(tmp_path: Path) -> None:
    events = EventQueue()
    process = python_process(tmp_path)
    child = DaskChild(process, events=events, log=lambda _: None)
    stdin = process._process.stdin  # type: ignore[attr-defined]
    stdin.close()
    said, end = drain(events, child.number)
    assert (said, end.code) == ([], -signal.SIGKILL)
    child.kill()


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_printed_line_and_its_end_are_written_at_once(stream: str) -> None:
    """So no other thread's line gets in between."""
    code = (
        f"import runpy, sys; runpy.run_path({str(LAUNCHER)!r}, run_name='__mp_main__');"
        f"print('a task', 'speaks', file=sys.{stream})"
    )
    # Each call that writes makes a message of its own.
    read, written = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    read.settimeout(HANG_SECONDS)
    with read, written:
        environ = child_environ(os.environ, home=Path("/"), region="us-east-1", run_environ={})
        streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: written}
        subprocess.run([sys.executable, "-c", code], env=environ, check=True, **streams)
        assert read.recv(100) == b"a task speaks\n"


def test_sending_to_a_process_that_is_gone_is_no_error(tmp_path: Path) -> None:
    child = start_child(tmp_path, EventQueue(), [])
    child.kill()
    child.send({"do": "leave"})


def test_an_unusable_python_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        LocalPython(Path("/nowhere/python")).start({}, tmp_path)


def test_the_agent_starts_without_boto3_dask_or_the_other_packages() -> None:
    code = "import sys, terradask_host.agent.agent; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    heavy = {
        "boto3",
        "botocore",
        "dask",
        "distributed",
        "moto",
        "terradask",
        "terradask_modules",
        "terradask_stacks",
    }
    assert heavy.isdisjoint(loaded)


def test_the_launcher_sees_the_host_program_but_not_its_neighbours(tmp_path: Path) -> None:
    """On an instance the host program's packages are not the cluster's: only its own package is
    lent.
    """
    import terradask_host

    source = Path(terradask_host.__file__).parent
    lent = tmp_path / "site" / "terradask_host"
    lent.parent.mkdir()
    lent.symlink_to(source)
    (lent.parent / "neighbour.py").write_text("")
    code = (
        "import sys; sys.path = [p for p in sys.path if 'terradask' not in p];"
        f"sys.path.insert(0, {str(lent / 'preload')!r}); import launch; sys.path.pop(0);"
        "launch.load_package(); import terradask_host.preload.forward, importlib.util;"
        "print(importlib.util.find_spec('neighbour'))"
    )
    answer = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "None"


def test_a_nannys_worker_finds_the_host_package_where_it_is_not_installed() -> None:
    # As multiprocessing prepares a process that it spawns.
    code = f"""
import importlib.util, runpy
assert importlib.util.find_spec("terradask_host") is None
runpy.run_path({str(LAUNCHER)!r}, run_name="__mp_main__")
import terradask_host.preload.secret_store as found
print(found.__file__)
"""
    bare = [sys.executable, "-I", "-S", "-c", code]
    found = subprocess.run(bare, capture_output=True, text=True, check=True).stdout.strip()
    assert Path(found) == LAUNCHER.with_name("secret_store.py")


def test_an_import_of_what_lies_at_the_client_alone_says_how_hosts_get_it(tmp_path: Path) -> None:
    code = f"""
import importlib.util, runpy, sys
runpy.run_path({str(LAUNCHER)!r}, run_name="__mp_main__")
for name in ("steps", "other", "json.steps"):
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        print(error.name, "local_modules=True" in str(error))
sys.path.insert(0, sys.argv[1])
print(importlib.import_module("steps").__name__)
"""
    (tmp_path / "steps.py").write_text("")
    found = subprocess.run(
        [sys.executable, "-P", "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, VARIABLE: "steps,work"},
    ).stdout
    assert found.splitlines() == ["steps True", "other False", "json.steps False", "steps"]


def test_a_given_python_finds_the_clusters_own_packages_beside_it(tmp_path: Path) -> None:
    publish(tmp_path, "steps", "0", body="STATE = 'sent'")
    (wheel,) = (tmp_path / "files").iterdir()
    content = wheel.read_bytes()
    key = f"wheels/{hashlib.sha256(content).hexdigest()}/{wheel.name}"
    folder = tmp_path / "own-packages"
    assert unpack_own_packages("dask==1.0\n", folder, {}.get) is None
    lock = f"dask==1.0\nsteps @ {key}\n"
    assert unpack_own_packages(lock, folder, {key: content}.get) == folder
    with pytest.raises(DocumentChanged):
        unpack_own_packages(lock, folder, {key: content + b" "}.get)
    assert unpack_own_packages(lock, folder, {key: content}.get) == folder
    environ = LocalPython(Path(sys.executable), folder).environ
    command = [sys.executable, "-P", "-c", "import steps; print(steps.STATE)"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, env=environ)
    assert said.stdout == "sent\n"
