"""Sessions of Session Manager: ports to which the embedded AWS's plugin connects, and their
targets.

A real session is one web socket to Systems Manager, which reaches the host's agent; here each
session is a port of this machine's loopback. A connection's first line is the session's token and
the connection's kind: ``control``, which lasts as long as the session, or ``data``, which is piped
to a new connection to the port on the host's loopback.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import secrets
import socket
from dataclasses import dataclass, field

from terradask_simulator.aws.network import LoopbackNetwork, close_server, join

__all__ = ["OWNERS", "Session", "Sessions", "owner_tags"]

_LINE_SECONDS = 10.0

#: Session -> its owner's ``aws:userid``.
OWNERS: dict[str, str] = {}


def owner_tags(session_id: str) -> dict[str, str]:
    """Return AWS's tag with the owner of a known session.

    AWS (ssm-session-tags)
    """
    owner = OWNERS.get(session_id)
    return {} if owner is None else {"aws:ssmmessages:session-id": owner}


@dataclass
class Session:
    """One session, to an address and port of a host; the plugin connects to the stream's port."""

    session_id: str
    token: str = field(repr=False)
    instance_id: str
    address: str
    port: int
    stream_port: int
    server: asyncio.Server | None = None
    tasks: set[asyncio.Task[None]] = field(default_factory=set)


class Sessions:
    """All open sessions."""

    def __init__(self, network: LoopbackNetwork) -> None:
        self._network = network
        self._sessions: dict[str, Session] = {}
        network.closers.append(self.close_of)

    def open(self, instance_id: str, address: str, port: int, *, who: str = "simulated") -> Session:
        """Start a session to a host's address and port; doesn't block, since the caller may hold
        the lock that the event loop waits for.
        """
        listener = socket.create_server(("127.0.0.1", 0))
        session = Session(
            f"{who}-{secrets.token_hex(9)}",
            secrets.token_urlsafe(48),
            instance_id,
            address,
            port,
            listener.getsockname()[1],
        )
        self._sessions[session.session_id] = session
        self._network.soon(self._serve(session, listener))
        return session

    def close(self, session_id: str) -> None:
        """End a session, if it exists."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._network.soon(_end(session))

    def close_of(self, instance_id: str) -> None:
        """End every session to an instance."""
        for session in [
            each for each in list(self._sessions.values()) if each.instance_id == instance_id
        ]:
            self.close(session.session_id)

    async def _serve(self, session: Session, listener: socket.socket) -> None:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            session.tasks.add(task)
            try:
                await self._carry(session, reader, writer)
            except (
                OSError,
                ValueError,
                TimeoutError,
                asyncio.IncompleteReadError,
                asyncio.CancelledError,
            ):
                # Either end may close at any time; ending the session cancels.
                pass
            finally:
                session.tasks.discard(task)
                writer.close()

        session.server = await asyncio.start_server(connected, sock=listener)
        if session.session_id not in self._sessions:
            await _end(session)

    async def _carry(
        self, session: Session, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        async with asyncio.timeout(_LINE_SECONDS):
            token, _, kind = (await reader.readline()).decode().strip().partition(" ")
        if (
            not hmac.compare_digest(token, session.token)
            or session.session_id not in self._sessions
        ):
            return
        if kind == "control":
            await reader.read()
            self.close(session.session_id)
        elif kind == "data":
            await join(reader, writer, session.address, session.port)


async def _end(session: Session) -> None:
    if session.server is not None:
        await close_server(session.server)
    me = asyncio.current_task()
    for task in [task for task in session.tasks if task is not me]:
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0)
