"""A server that closes a connection the moment it is made, before TLS begins."""

from __future__ import annotations

import asyncio
import copy
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import dask.config
import pytest
from distributed.comm import backends, connect
from distributed.comm.tcp import TLSBackend
from distributed.security import Security

from terradask_host.preload.closed_streams import expect_closed_streams
from terradask_host.preload.serve import configure


@dataclass
class _ClosingServer:
    address: str
    connections: int = 0


@pytest.fixture
def closing_server() -> Iterator[_ClosingServer]:
    """Listen on an address where each connection is closed at once, and count them."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = _ClosingServer(f"tls://127.0.0.1:{listening.getsockname()[1]}")

        def close_each() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                server.connections += 1
                connection.close()

        thread = threading.Thread(target=close_each)
        thread.start()
        yield server
        listening.shutdown(socket.SHUT_RDWR)
    thread.join()


@pytest.fixture
def own_configuration() -> Iterator[None]:
    """Put Dask's configuration back afterwards, which is one object for the whole process."""
    before = copy.deepcopy(dask.config.config)
    yield
    dask.config.config.clear()
    dask.config.config.update(before)


async def _dial_busily(address: str) -> None:
    """Connect while the event loop is so busy that it sees the connection and its end at once."""
    over = asyncio.Event()

    async def keep_busy() -> None:
        while not over.is_set():
            time.sleep(0.02)
            await asyncio.sleep(0)

    busy = asyncio.create_task(keep_busy())
    try:
        arguments = Security.temporary().get_connection_args("client")
        await connect(address, timeout=1, **arguments)
    finally:
        over.set()
        await busy


def test_dask_alone_gives_up_at_once(
    closing_server: _ClosingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(backends, "tls", TLSBackend())
    with pytest.raises(ValueError, match="IOStream is not idle"):
        asyncio.run(_dial_busily(closing_server.address))


def test_a_connection_that_is_closed_at_once_is_tried_again_until_the_time_is_over(
    closing_server: _ClosingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(backends, "tls", TLSBackend())
    expect_closed_streams()
    # Where the time is over between two tries, Python's own error has no text.
    with pytest.raises(OSError, match=r"Timed out|\A\Z"):
        asyncio.run(_dial_busily(closing_server.address))
    assert closing_server.connections > 1


@pytest.mark.parametrize(
    ("theirs", "preload", "arguments"),
    [
        ({}, [], []),
        ({"preload": "theirs", "preload-argv": ["--size"]}, ["theirs"], ["--size"]),
        ({"preload": ["a"], "preload-argv": [["--b"]]}, ["a"], [["--b"], []]),
    ],
)
def test_workers_own_processes_do_so_besides_what_the_caller_preloads(
    theirs: dict[str, object],
    preload: list[str],
    arguments: list[object],
    own_configuration: None,
) -> None:
    configure({"distributed": {"worker": theirs}}, {})
    found = dask.config.get("distributed.worker")
    assert found["preload"] == [*preload, "terradask_host.preload.closed_streams"]
    assert found.get("preload-argv", []) == arguments
