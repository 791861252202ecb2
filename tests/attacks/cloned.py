"""A stranger's repository that was cloned, and what shows that something of it ran or was sent."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from terradask_simulator import Simulator

from ..command import in_this_process
from ..quick_provider import QuickProvider
from ..shared_simulator import QuickSimulator

SETTINGS = """
[network]
cidr = "{cidr}"
zones = ["us-east-1a"]
nat = "none"
public_workers = true
"""

#: What may stand in a user's PATH by accident: an empty folder is the working one, as in
#: ``PATH=$UNSET:$PATH``.
WORKING_FOLDERS = ("", ".", "bin")
PROGRAMS = ("git", "keyring", "node", "session-manager-plugin", "terraform", "uv")


@dataclass
class Listener:
    """A server of the attacker's: what is sent to it."""

    url: str = ""
    received: list[str] = field(default_factory=list)


@pytest.fixture
def listener() -> Iterator[Listener]:
    found = Listener()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.received.append(self.path)
            self.send_response(404)
            self.end_headers()

        do_POST = do_PUT = do_HEAD = do_GET  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        found.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield found
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def aws(quick_provider: QuickProvider) -> Iterator[Simulator]:
    """An embedded AWS without hosts."""
    with QuickSimulator.start(boot_hosts=False) as simulator:
        simulator.provider = quick_provider
        yield simulator


@dataclass(frozen=True)
class Clone:
    """A cloned repository, and what would show that something of it ran."""

    folder: Path
    marker: Path
    url: str
    environ: dict[str, str]

    def plant(self, path: str, text: str, *, program: bool = False) -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755 if program else 0o644)
        return file

    def program(self, path: str) -> Path:
        """Plant a program that leaves the marker, with the caller's variables in it."""
        return self.plant(path, f"#!/bin/sh\nenv > '{self.marker}'\nexit 1\n", program=True)

    def module(self, path: str) -> Path:
        """Plant a module of Python's that leaves the marker."""
        return self.plant(path, f"open({str(self.marker)!r}, 'w').write(__file__)\n")

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return in_this_process(*arguments, environ=self.environ, folder=self.folder)

    @property
    def untouched(self) -> bool:
        return not self.marker.exists()


@pytest.fixture
def clone(aws: Simulator, listener: Listener, tmp_path: Path) -> Iterator[Clone]:
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "terradask.toml").write_text(SETTINGS.format(cidr=aws.vpc_cidr))
    environ = dict(aws.environ)
    # As users have it: what belongs to the repository lies in it.
    environ.pop("TERRADASK_STATE_DIR")
    yield Clone(folder, tmp_path / "ran", listener.url, environ)
    assert listener.received == []


def run_git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True)
