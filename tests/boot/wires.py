"""A network of the test's own, which reaches nothing else: a bridge, on which the metadata service
answers, and a wire from it to each machine.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socket import SHUT_WR, create_connection, socket
from socketserver import BaseRequestHandler, ThreadingTCPServer

from .metadata_service import ADDRESS as METADATA_ADDRESS

#: The VPC, and what stands for its router.
CIDR, ROUTER = "10.64.0.0/16", "10.64.255.1"

_BRIDGE = "terradask"
#: Without one of its own it has that of one of its wires, and another when a machine's goes: the
#: other machines would reach nothing for seconds.
_BRIDGE_ADDRESS = "02:00:00:00:00:01"
_CLONE_NEWNET = 0x40000000


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@contextmanager
def own_network() -> Iterator[None]:
    """Put this thread, and what it starts, into a network namespace with the bridge."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        if libc.unshare(_CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "no network namespace can be made")
        try:
            _ip("link", "set", "lo", "up")
            _ip("link", "add", _BRIDGE, "address", _BRIDGE_ADDRESS, "type", "bridge")
            _ip("addr", "add", f"{ROUTER}/16", "dev", _BRIDGE)
            _ip("addr", "add", f"{METADATA_ADDRESS}/32", "dev", _BRIDGE)
            _ip("link", "set", _BRIDGE, "up")
            yield
        finally:
            libc.setns(before, _CLONE_NEWNET)
    finally:
        os.close(before)


def answer_at(address: str) -> None:
    """Let servers of this network namespace answer at one more address, behind the router."""
    _ip("addr", "add", f"{address}/32", "dev", _BRIDGE)


def connect(pid: int, number: int, address: str, folder: Path) -> None:
    """Give the network namespace of a process a card on the bridge, and say its address."""
    wire = f"wire{number}"
    _ip("link", "add", wire, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
    _ip("link", "set", wire, "master", _BRIDGE)
    _ip("link", "set", wire, "up")
    (folder / "network").write_text(f"{address}/16 {ROUTER}\n")


class _Relay(BaseRequestHandler):
    def handle(self) -> None:
        port = self.server.server_address[1]
        with suppress(OSError), create_connection(("127.0.0.1", port)) as inner:
            back = threading.Thread(target=_copy, args=(inner, self.request), daemon=True)
            back.start()
            _copy(self.request, inner)
            back.join()


def _copy(source: socket, target: socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 18):
            target.sendall(data)
        target.shutdown(SHUT_WR)


@contextmanager
def reachable(port: int) -> Iterator[str]:
    """Let machines reach what listens on a port of loopback; yield its address."""
    with ThreadingTCPServer((ROUTER, port), _Relay) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield f"http://{ROUTER}:{port}"
        server.shutdown()
        thread.join()
