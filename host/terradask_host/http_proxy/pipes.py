"""A listener that closes its connections at its end, and a join of two connections with flow
control.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any

from terradask_host.http_proxy.request import END_OF_HEAD

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

#: Connects to the service behind a proxy or a forward; raises ``OSError`` or ``TimeoutError``.
Dial = Callable[[], Awaitable[Streams]]

CHUNK_BYTES = 65_536

#: Time after which a reader that takes no bytes counts as gone.
STALLED_SECONDS = 300.0

#: Time for an answer after the client has closed its direction.
HALF_CLOSED_SECONDS = 60.0

#: Start of an answer that switches protocols.
_SWITCHED = b"HTTP/1.1 101 "

#: Time for sending the last bytes.
FLUSH_SECONDS = 30.0


class Listener(ABC):
    """Accepts connections, which a subclass serves, and closes them all at its end."""

    #: Time for sending written bytes at the end.
    last_seconds = 0.0

    def __init__(self) -> None:
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int | None:
        """The port, or None if it isn't listening."""
        if self._server is None or not self._server.sockets:
            return None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def listen(
        self, host: str, port: int, context: ssl.SSLContext | None, **options: float
    ) -> None:
        """Listen, with TLS if a context is given; port 0 is a free one.

        Raises ``OSError`` if the port is taken.
        """
        accept: Any = self._accept
        self._server = await asyncio.start_server(accept, host, port, ssl=context, **options)  # type: ignore[arg-type]

    async def close(self) -> None:
        """Stop listening and close every connection."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @abstractmethod
    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection, which is closed afterwards."""

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task, seconds = asyncio.current_task(), self.last_seconds
        assert task is not None
        self._tasks.add(task)
        try:
            # The listener may have closed between the acceptance and this call.
            if self._server is not None:
                await self.serve(reader, writer)
            seconds = FLUSH_SECONDS
        except (OSError, asyncio.CancelledError):
            # The peer may disconnect at any time; closing the listener cancels.
            pass
        finally:
            await finish(writer, seconds)
            self._tasks.discard(task)


def to_port(host: str, port: int) -> Dial:
    """Return a function that connects to a port."""
    return lambda: asyncio.open_connection(host, port)


def to_socket(path: str) -> Dial:
    """Return a function that connects to a local socket, of a host."""
    if sys.platform == "win32":
        raise OSError("Windows' Python has no local sockets")
    return lambda: asyncio.open_unix_connection(short(path))


def short(path: str) -> str:
    """Return a socket's path in at most 107 bytes, its address's limit, if that is possible."""
    return min(path, os.path.relpath(path), key=len)


async def join(
    near: Streams,
    far: Streams,
    *,
    upgrade: bool,
    change_head: Callable[[bytes], bytes] | None = None,
    patient: bool = False,
) -> None:
    """Carry bytes both ways until the far end closes or the near one is gone; close the far one.

    `upgrade`: the near end has requested another protocol, such as a websocket's. If the far end
    agrees, bytes go both ways, and the end of one closes both. If it doesn't, it gets no more
    bytes: they would be another, unchecked request. Without `upgrade`, the near end may have
    closed its direction and still gets its answer. `change_head` changes the head of the far end's
    answer. An end that takes no bytes for long counts as gone, unless this is `patient`.
    """
    agreed = asyncio.Event() if upgrade else None
    asking = asyncio.create_task(_pump(near[0], far[1], patient=patient, after=agreed))
    answering = asyncio.create_task(_answer(far, near[1], change_head, agreed, patient))
    try:
        await asyncio.wait({asking, answering}, return_when=asyncio.FIRST_COMPLETED)
        if not answering.done() and not upgrade and not asking.exception():
            _end(far[1])
            await asyncio.wait({answering}, timeout=HALF_CLOSED_SECONDS)
    finally:
        for task in (asking, answering):
            task.cancel()
        # Close it in any case, even if another error comes meanwhile.
        close_soon(far[1])
        await asyncio.gather(asking, answering, return_exceptions=True)


async def finish(writer: asyncio.StreamWriter, seconds: float) -> None:
    """Close a connection once written bytes are sent or the reader is gone, within a limit."""
    close_soon(writer)
    try:
        async with asyncio.timeout(seconds):
            await writer.wait_closed()
    except (OSError, TimeoutError, asyncio.CancelledError):
        pass
    finally:
        # This has no effect on a closed connection.
        writer.transport.abort()


def close_soon(writer: asyncio.StreamWriter) -> None:
    """Close a connection that may be broken, or whose loop may be ending."""
    with contextlib.suppress(OSError, RuntimeError):
        writer.close()


def _end(writer: asyncio.StreamWriter) -> None:
    """Send the end of the stream; TLS has no half-closed connections."""
    if writer.can_write_eof():
        writer.write_eof()


async def _answer(
    far: Streams,
    writer: asyncio.StreamWriter,
    change_head: Callable[[bytes], bytes] | None,
    agreed: asyncio.Event | None,
    patient: bool,
) -> None:
    async with asyncio.timeout(None if agreed is None else HALF_CLOSED_SECONDS) as limit:
        if change_head is not None or agreed is not None:
            try:
                head = await far[0].readuntil(END_OF_HEAD)
            except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                # An answer without a changeable head isn't passed on.
                return
            writer.write(head if change_head is None else change_head(head))
            if agreed is not None and head.startswith(_SWITCHED):
                limit.reschedule(None)
                agreed.set()
            elif agreed is not None:
                _end(far[1])
        await _pump(far[0], writer, patient=patient)


async def _pump(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    *,
    patient: bool,
    after: asyncio.Event | None = None,
) -> None:
    if after is not None:
        await after.wait()
    while chunk := await reader.read(CHUNK_BYTES):
        writer.write(chunk)
        async with asyncio.timeout(None if patient else STALLED_SECONDS):
            await writer.drain()
