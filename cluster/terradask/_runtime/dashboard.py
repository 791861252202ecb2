"""The dashboard on the client's own loopback, forwarded over mutual TLS.

Dask's dashboard has no authentication of its own. On the scheduler's host it listens on loopback alone, behind a forward that demands the
client's certificate; this is the other end.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl

_CHUNK_BYTES = 1 << 16


class DashboardForward:
    """A listener on 127.0.0.1 that carries each connection to the scheduler's host over mutual TLS.

    Parameters
    ----------
    host
        Address of the scheduler's host.
    port
        The cluster's dashboard port there.
    context
        TLS with the client's certificate.
    """

    def __init__(self, host: str, port: int, context: ssl.SSLContext) -> None:
        self._host = host
        self._port = port
        self._context = context
        self._server: asyncio.Server | None = None
        self._pipes: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int | None:
        """The local port, or None when it isn't listening."""
        if self._server is None or not self._server.sockets:
            return None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def start(self) -> None:
        """Listen on a free port of 127.0.0.1."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)

    async def close(self) -> None:
        """Stop listening and end every connection."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for pipe in list(self._pipes):
            pipe.cancel()
        await asyncio.gather(*self._pipes, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._pipes.add(task)
            task.add_done_callback(self._pipes.discard)
        ends = [writer]
        try:
            # It was accepted, and closed before this ran.
            if self._server is None:
                return
            far_reader, far_writer = await asyncio.open_connection(self._host, self._port, ssl=self._context)
            ends.append(far_writer)
            await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
        except OSError:
            # The scheduler's host can't be reached: the browser says so.
            return
        finally:
            for end in ends:
                with contextlib.suppress(OSError, RuntimeError):
                    end.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await reader.read(_CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
    with contextlib.suppress(OSError, RuntimeError):
        writer.close()
