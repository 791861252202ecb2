"""A line with a delay between clients and the embedded AWS, as from a desk to a region far away.

It is an HTTP proxy, so a client that goes through it signs what it would sign without it.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from urllib.parse import urlsplit

__all__ = ["Line", "LineCall"]

_CHUNK_BYTES = 65_536
#: A proxy is asked for whole URLs, a server for paths.
_REQUEST = re.compile(rb"\A([A-Z]+) http://[^/ ]+(/[^ ]*) ")
_ACTION = re.compile(rb"(?:\r\nX-Amz-Target: [^\r]*\.|\bAction=)(\w+)")
_GO_ON = b"HTTP/1.1 100 "


@dataclass(frozen=True)
class LineCall:
    """A call through a line, as its client sees it, on the clock of `time.monotonic`."""

    #: AWS's name of the action; of a call of S3 its method and path.
    action: str
    sent_at: float
    answered_at: float
    #: It was sent after the answer to a call of the round before.
    round: int


class Line:
    """Delays what clients send to the embedded AWS by half a round trip, and the answers too.

    What a client sends side by side is delayed side by side. A new connection's first request waits
    until that would be set up: with TLS 1.3, AWS's own takes two round trips.

    Parameters
    ----------
    endpoint_url
        Where the embedded AWS answers.
    round_trip_seconds
        How much longer a call takes.
    setup_rounds
        How many round trips a new connection takes.
    """

    def __init__(
        self, endpoint_url: str, round_trip_seconds: float, *, setup_rounds: int = 1
    ) -> None:
        target = urlsplit(endpoint_url)
        self._target = (target.hostname, target.port)
        self._half_seconds = round_trip_seconds / 2
        self._setup_seconds = setup_rounds * round_trip_seconds
        self._thread = threading.Thread(target=self._run, name="line", daemon=True)
        self._listens = threading.Event()
        self._connections: set[asyncio.Task[None]] = set()
        self._calls: list[LineCall] = []
        self._rounds = 0
        self._port = 0

    def __enter__(self) -> Line:
        """Listen on loopback."""
        self._thread.start()
        self._listens.wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Break off what goes through it."""
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()

    def environ(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return a client's environment with which it goes through the line."""
        proxy = f"http://127.0.0.1:{self._port}"
        return {**environ, "HTTP_PROXY": proxy, "http_proxy": proxy, "NO_PROXY": "", "no_proxy": ""}

    def lengthen(self, round_trip_seconds: float) -> None:
        """Make calls take so much longer from now on."""
        self._half_seconds = round_trip_seconds / 2

    def calls(self) -> list[LineCall]:
        """Return the calls since the last time, in the order of their answers; the next one is of
        round 1.
        """
        found, self._calls, self._rounds = self._calls, [], 0
        return found

    def _run(self) -> None:
        asyncio.run(self._listen())

    async def _listen(self) -> None:
        self._ended = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        async with await asyncio.start_server(self._serve, "127.0.0.1", 0) as server:
            self._port = server.sockets[0].getsockname()[1]
            self._listens.set()
            await self._ended.wait()
            for connection in self._connections:
                connection.cancel()

    async def _serve(self, client: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        ready_at = self._loop.time() + self._setup_seconds
        aws, requests = await asyncio.open_connection(*self._target)
        asked: list[tuple[str, float, int]] = []

        def on_request(chunk: bytes) -> bytes:
            whole, named = _REQUEST.match(chunk), _ACTION.search(chunk)
            if whole is None:
                if named and asked:
                    # A request's body may come after its headers.
                    asked[-1] = (named[1].decode(), *asked[-1][1:])
                return chunk
            action = named[1] if named else b"%s %s" % (whole[1], whole[2].partition(b"?")[0])
            asked.append((action.decode(), time.monotonic(), self._rounds + 1))
            return _REQUEST.sub(rb"\1 \2 ", chunk)

        def on_answer(chunk: bytes) -> bytes:
            if asked and not chunk.startswith(_GO_ON):
                action, sent_at, number = asked.pop()
                self._calls.append(LineCall(action, sent_at, time.monotonic(), number))
                self._rounds = max(self._rounds, number)
            return chunk

        both = asyncio.gather(
            self._carry(client, requests, ready_at, at_start=on_request),
            self._carry(aws, answers, 0, at_end=on_answer),
        )
        try:
            await both
        except (ConnectionError, asyncio.CancelledError):
            both.cancel()
        finally:
            self._connections.discard(task)
            requests.close()
            answers.close()

    async def _carry(
        self,
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        ready_at: float,
        *,
        at_start: Callable[[bytes], bytes] = lambda chunk: chunk,
        at_end: Callable[[bytes], bytes] = lambda chunk: chunk,
    ) -> None:
        """Carry bytes one way, each as late as the line is long; the end too."""
        on_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def take_in() -> None:
            chunk = b"-"
            while chunk:
                chunk = await source.read(_CHUNK_BYTES)
                due = max(self._loop.time(), ready_at) + self._half_seconds
                on_way.put_nowait((due, at_start(chunk)))

        async def give_out() -> None:
            while True:
                due, chunk = await on_way.get()
                await asyncio.sleep(due - self._loop.time())
                if not chunk:
                    break
                target.write(at_end(chunk))
                await target.drain()
            target.close()

        await asyncio.gather(take_in(), give_out())
