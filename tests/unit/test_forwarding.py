"""A port through a session: real plugin processes, sessions that are lost, and a client that is
killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from terradask._aws.session import Aws
from terradask._aws.ssm import forwarding
from terradask._aws.ssm.forwarding import PortForwarding
from terradask._aws.ssm.plugin import Plugin
from terradask._aws.translation import typed_error
from terradask.errors import AccessDenied, SchedulerUnreachable
from terradask_simulator.aws.network import LoopbackNetwork
from terradask_simulator.aws.session_manager.plugin import plugin_folder, write_plugin
from terradask_simulator.aws.session_manager.sessions import Sessions

from ..waiting import HANG_SECONDS, eventually


class Account(Aws):
    """AWS with sessions alone, which lead to one address."""

    def __init__(
        self, answer: Callable[[dict[str, Any]], dict[str, str]], end: Callable[[str], Any] = bool
    ) -> None:
        super().__init__("us-east-1", profile="work")
        self.asked: list[dict[str, Any]] = []
        self._ssm = SimpleNamespace(
            start_session=lambda **request: self.asked.append(request) or answer(request),
            terminate_session=lambda **session: end(session["SessionId"]),
            meta=SimpleNamespace(endpoint_url="http://127.0.0.1:1"),
        )

    def client(self, name: str) -> Any:
        assert name == "ssm"
        return self._ssm


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Plugin:
    folder = tmp_path_factory.mktemp("sim")
    write_plugin(folder)
    return Plugin(str(plugin_folder(folder) / "session-manager-plugin"), "1.2.650.0")


@pytest.fixture(scope="module")
def echo() -> Iterator[int]:
    """Port of a server on a host that says everything again."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection, contextlib.suppress(ConnectionError):
                        connection.sendall(connection.recv(100))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.fixture
def sessions() -> Iterator[Sessions]:
    network = LoopbackNetwork(None)  # type: ignore[arg-type]  # nobody asks for credentials
    network.start()
    held = Sessions(network)
    yield held
    eventually(lambda: not held._sessions)
    network.stop()


@pytest.fixture
def account(sessions: Sessions, echo: int) -> Account:
    return Account(lambda request: response(sessions, echo), sessions.close)


def response(sessions: Sessions, port: int) -> dict[str, str]:
    session = sessions.open("i-1", "127.0.0.1", port)
    return {
        "SessionId": session.session_id,
        "TokenValue": session.token,
        "StreamUrl": f"tcp://127.0.0.1:{session.stream_port}",
    }


def said_again(port: int, text: bytes = b"hello") -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=HANG_SECONDS) as connection:
        connection.sendall(text)
        return connection.recv(100)


def succeeds(attempt: Callable[[], Any]) -> bool:
    with contextlib.suppress(OSError):
        return bool(attempt())
    return False


def command_lines(marker: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            text = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if marker in text:
                found.append(text)
    return found


@pytest.fixture
def opened(account: Account, plugin: Plugin) -> Iterator[PortForwarding]:
    held = PortForwarding(account, plugin, instance_id=f"i-{os.getpid()}", port=8786)
    held.open()
    held.wait(HANG_SECONDS)
    yield held
    held.close()


def test_bytes_go_there_and_back_and_the_token_stands_in_no_command_line(
    opened: PortForwarding, account: Account
) -> None:
    assert opened.local_port is not None
    assert said_again(opened.local_port) == b"hello"
    assert account.asked == [
        {
            "Target": f"i-{os.getpid()}",
            "DocumentName": "AWS-StartPortForwardingSession",
            "Parameters": {"portNumber": ["8786"]},
        }
    ]
    running = command_lines(f"i-{os.getpid()}")
    assert len(running) == 1
    assert "AWS_SSM_START_SESSION_RESPONSE us-east-1 StartSession work {" in running[0]
    assert "TokenValue" not in "".join(command_lines("terradask"))


def test_a_session_that_is_lost_is_opened_again_at_the_same_port(
    opened: PortForwarding, account: Account, sessions: Sessions
) -> None:
    port = opened.local_port
    assert port is not None
    first = opened._session_id
    assert first is not None
    sessions.close(first)
    eventually(
        lambda: succeeds(lambda: said_again(port) == b"hello") and opened._session_id != first
    )
    assert account.asked[-1]["Parameters"] == {
        "portNumber": ["8786"],
        "localPortNumber": [str(port)],
    }


def test_a_port_that_somebody_takes_meanwhile_is_waited_for(
    opened: PortForwarding, account: Account, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarding, "_LONGEST_PAUSE_SECONDS", 0.2)
    port = opened.local_port
    assert port is not None
    assert opened._process is not None
    opened._process.stdin.close()  # type: ignore[union-attr]
    opened._process.wait(HANG_SECONDS)
    with socket.socket() as thief:
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        eventually(lambda: succeeds(lambda: thief.bind(("127.0.0.1", port)) is None))
        thief.listen()
        eventually(lambda: len(account.asked) > 3)
        assert opened.local_port == port
    eventually(lambda: succeeds(lambda: said_again(port) == b"hello"))


def test_what_is_closed_leaves_no_process_and_no_session(
    account: Account, plugin: Plugin, sessions: Sessions
) -> None:
    held = PortForwarding(account, plugin, instance_id=f"i-closed-{os.getpid()}", port=8786)
    held.open()
    held.wait(HANG_SECONDS)
    held.close()
    eventually(lambda: not command_lines(f"i-closed-{os.getpid()}") and not sessions._sessions)
    eventually(lambda: not held._keeper.is_alive())
    held.close()


KILLED = """
import json, sys
from types import SimpleNamespace
from terradask._aws.ssm.forwarding import PortForwarding
from terradask._aws.ssm.plugin import Plugin

answer = json.loads(sys.argv[1])
ssm = SimpleNamespace(start_session=lambda **request: answer, meta=SimpleNamespace(endpoint_url="http://127.0.0.1:1"))
aws = SimpleNamespace(region="us-east-1", variables=dict, client=lambda name: ssm)
held = PortForwarding(aws, Plugin(sys.argv[2], "1.2.650.0"), instance_id=sys.argv[3], port=8786)
held.open()
print(held.wait(100), flush=True)
held._keeper.join()
"""


def test_a_client_that_is_killed_takes_the_plugin_with_it(
    plugin: Plugin, sessions: Sessions, echo: int
) -> None:
    name = f"i-killed-{os.getpid()}"
    arguments = [json.dumps(response(sessions, echo)), plugin.path, name]
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, *arguments], stdout=subprocess.PIPE, text=True
    ) as client:
        try:
            assert client.stdout is not None
            port = int(client.stdout.readline())
            assert said_again(port) == b"hello"
        finally:
            client.kill()
    eventually(lambda: not command_lines(name))
    eventually(lambda: not sessions._sessions)
    with pytest.raises(OSError, match="refused"):
        said_again(port)


@pytest.mark.parametrize(
    ("name", "script", "problem"),
    [
        (
            "ends-at-once",
            "echo Cannot perform start session: unable to reach the service; exit 1",
            "unable to reach the service",
        ),
        ("says-nothing", "exit 0", "was not opened"),
        ("opens-no-port", "echo Starting session; exec sleep 60", "was not open within 1 s"),
    ],
)
def test_a_plugin_that_fails(
    tmp_path: Path, account: Account, name: str, script: str, problem: str
) -> None:
    program = tmp_path / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    held = PortForwarding(account, Plugin(str(program), "1.2.650.0"), instance_id="i-1", port=8786)
    held.open()
    with pytest.raises(SchedulerUnreachable, match=problem) as caught:
        held.wait(1.0 if name == "opens-no-port" else HANG_SECONDS)
    held.close()
    assert caught.value.address == "i-1:8786"
    assert "session_manager = true" in str(caught.value)
    eventually(lambda: not held._keeper.is_alive())


def refusal(
    code: str, message: str = "i-1 is not connected."
) -> Callable[[dict[str, Any]], dict[str, str]]:
    def refuse(request: dict[str, Any]) -> dict[str, str]:
        error = ClientError({"Error": {"Code": code, "Message": message}}, "StartSession")
        raise typed_error(error, "us-east-1") or error

    return refuse


@pytest.mark.parametrize(
    ("code", "error", "problem"),
    [
        ("TargetNotConnected", SchedulerUnreachable, "has no agent on the host"),
        ("InvalidDocument", SchedulerUnreachable, "InvalidDocument: i-1 is not connected."),
        ("AccessDeniedException", AccessDenied, "ssm:StartSession"),
    ],
)
def test_what_aws_refuses(plugin: Plugin, code: str, error: type[Exception], problem: str) -> None:
    denied = (
        "User: arn:aws:iam::1:user/a is not authorized to perform: ssm:StartSession on resource: x"
    )
    aws = Account(refusal(code, denied) if error is AccessDenied else refusal(code))
    held = PortForwarding(aws, plugin, instance_id="i-1", port=8786)
    held.open()
    with pytest.raises(error, match=problem):
        held.wait(HANG_SECONDS)
    held.close()


def test_closing_wakes_whoever_waits(plugin: Plugin) -> None:
    asked, answering = threading.Event(), threading.Event()

    def slow(request: dict[str, Any]) -> dict[str, str]:
        asked.set()
        assert answering.wait(HANG_SECONDS)
        return {"SessionId": "s", "TokenValue": "t", "StreamUrl": "tcp://127.0.0.1:9"}

    ended: list[str] = []
    held = PortForwarding(Account(slow, ended.append), plugin, instance_id="i-1", port=8786)
    held.open()
    assert asked.wait(HANG_SECONDS)
    closing = threading.Thread(target=held.close)
    closing.start()
    with pytest.raises(SchedulerUnreachable, match="closed before it was open"):
        held.wait(HANG_SECONDS)
    answering.set()
    closing.join()
    eventually(lambda: ended == ["s"])
