"""Listeners on loopback addresses, all on one event loop in one thread: metadata services and
public addresses.
"""

from __future__ import annotations

import asyncio
import contextlib
import http
import logging
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from terradask_simulator.aws.credentials import RoleKeys
from terradask_simulator.aws.instances import InstanceView, admits
from terradask_simulator.aws.metadata import Answer, MetadataService

__all__ = ["LoopbackNetwork", "close_server", "join"]

T = TypeVar("T")
_log = logging.getLogger(__name__)
#: Port of each instance's metadata service on its private address.
METADATA_PORT = 1338
_CHUNK = 256 * 1024
_MAX_HEAD = 64 * 1024
_CUT_POLL_SECONDS = 0.05
#: Turns of the event loop between asyncio's accepting a connection and the start of its handler.
_TURNS_TO_SERVE = 4


class LoopbackNetwork:
    """Listeners on the addresses of instances."""

    def __init__(self, keys: RoleKeys) -> None:
        self._keys = keys
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="loopback-network", daemon=True
        )
        self._metadata: dict[str, asyncio.Server] = {}
        self._forwards: dict[tuple[str, str, int], asyncio.Server] = {}
        self._pipes: dict[str, set[asyncio.Task[None]]] = {}
        self._cuts: dict[str, float] = {}
        self._changing = asyncio.Lock()
        #: Called with each instance that ended.
        self.closers: list[Callable[[str], None]] = []

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Close every listener and end the thread."""

        async def close() -> None:
            for instance_id in [*self._metadata, *{key[0] for key in self._forwards}]:
                await self._close(instance_id)
            # The last accepted handlers reach the point where they close their connections.
            for _ in range(_TURNS_TO_SERVE):
                await asyncio.sleep(0)
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            # Closed connections are released one turn later.
            await asyncio.sleep(0)

        self._do(close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    def open_metadata(self, instance: InstanceView) -> str:
        """Serve an instance's metadata at its private address; return the endpoint, which is secret
        to the instance's host.
        """
        service = MetadataService(instance.instance_id, self._keys)

        async def serve() -> None:
            self._metadata[instance.instance_id] = await asyncio.start_server(
                lambda reader, writer: _serve_http(service, reader, writer),
                instance.private_address,
                METADATA_PORT,
                limit=_MAX_HEAD,
            )

        self._do(serve())
        return f"http://{instance.private_address}:{METADATA_PORT}{service.prefix}"

    def forward(self, instance: InstanceView) -> None:
        """Make an instance's public address forward exactly the ports of its security groups."""
        public = instance.public_address
        wanted = (
            {(instance.instance_id, public, port) for port in instance.ports} if public else set()
        )
        if wanted != self._forwarded(instance.instance_id):
            self._do(self._change(instance, wanted))

    def cut(self, instance_id: str, seconds: float) -> None:
        """Break the connections through an instance's public address, and refuse new ones for a
        while; 0 restores it.
        """

        def cut() -> None:
            self._cuts[instance_id] = time.monotonic() + seconds
            for task in self._pipes.get(instance_id, set()) if seconds else ():
                task.cancel()

        # The thread that turns the switch holds the lock that this thread may wait for.
        self._loop.call_soon_threadsafe(cut)

    def soon(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a coroutine on the event loop without waiting for it."""
        asyncio.run_coroutine_threadsafe(work, self._loop)

    def _is_cut(self, instance_id: str) -> bool:
        return self._cuts.get(instance_id, 0.0) > time.monotonic()

    def _forwarded(self, instance_id: str) -> set[tuple[str, str, int]]:
        return {key for key in list(self._forwards) if key[0] == instance_id}

    def close(self, instance_id: str) -> None:
        """Close an instance's listeners and connections."""
        self._do(self._close(instance_id))
        for closer in self.closers:
            closer(instance_id)

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _close(self, instance_id: str) -> None:
        server = self._metadata.pop(instance_id, None)
        if server is not None:
            await close_server(server)
        for key in [key for key in self._forwards if key[0] == instance_id]:
            await close_server(self._forwards.pop(key))
        for task in self._pipes.pop(instance_id, set()):
            task.cancel()

    async def _change(self, instance: InstanceView, wanted: set[tuple[str, str, int]]) -> None:
        # A boot and the reconcile loop may both request it; the second changes nothing.
        async with self._changing:
            known = self._forwarded(instance.instance_id)
            for key in known - wanted:
                await close_server(self._forwards.pop(key))
            for key in wanted - known:
                _, public, port = key
                try:
                    self._forwards[key] = await asyncio.start_server(
                        self._piper(instance, port), public, port
                    )
                except OSError as error:
                    _log.warning("no forward at %s:%s: %s", public, port, error)

    def _piper(self, instance: InstanceView, port: int) -> Any:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            peer = writer.get_extra_info("peername")[0]
            if self._is_cut(instance.instance_id):
                while self._is_cut(instance.instance_id):
                    await asyncio.sleep(_CUT_POLL_SECONDS)
                writer.transport.abort()
                return
            if not admits(instance.instance_id, port, peer):
                _log.info("%s is not admitted to port %s of %s", peer, port, instance.instance_id)
                writer.close()
                return
            task = asyncio.current_task()
            tasks = self._pipes.setdefault(instance.instance_id, set())
            if task is not None:
                tasks.add(task)
            try:
                await join(reader, writer, instance.private_address, port)
            except asyncio.CancelledError:
                pass
            finally:
                writer.close()
                if task is not None:
                    tasks.discard(task)

        return connected


async def close_server(server: asyncio.Server) -> None:
    """Close a server after serving its accepted connections.

    A connection that is accepted in the same turn in which its server is closed would stay open,
    unserved: asyncio creates its transport a turn later, which fails without a server.
    """
    for listener in server.sockets:
        asyncio.get_running_loop().remove_reader(listener.fileno())
    await asyncio.sleep(0)
    server.close()


async def join(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str, port: int
) -> None:
    """Copy bytes between a connection and a new one to an address, until both end."""
    try:
        inner_reader, inner_writer = await asyncio.open_connection(address, port)
    except OSError:
        return
    try:
        await asyncio.gather(_copy(reader, inner_writer), _copy(inner_reader, writer))
    finally:
        inner_writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError, BrokenPipeError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError, RuntimeError):
        if writer.can_write_eof():
            writer.write_eof()


async def _serve_http(
    service: MetadataService, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, path, version = head[0].split(" ", 2)
            headers = {
                name.strip().lower(): value.strip()
                for name, _, value in (line.partition(":") for line in head[1:])
            }
            if length := int(headers.get("content-length", "0") or 0):
                await reader.readexactly(length)
            close = headers.get("connection", "").lower() == "close" or version == "HTTP/1.0"
            writer.write(
                _http(
                    service.answer(method, path, headers), close=close, with_body=method != "HEAD"
                )
            )
            await writer.drain()
            if close:
                return
    except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
        return
    finally:
        writer.close()


def _http(answer: Answer, *, close: bool, with_body: bool) -> bytes:
    body = answer.body.encode()
    lines = [
        f"HTTP/1.1 {answer.status} {http.HTTPStatus(answer.status).phrase}",
        "Content-Type: text/plain",
        f"Content-Length: {len(body)}",
        "Server: EC2ws",
        f"Connection: {'close' if close else 'keep-alive'}",
        *(f"{name}: {value}" for name, value in answer.headers),
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (body if with_body else b"")
