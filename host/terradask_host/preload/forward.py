"""Forwards on a scheduler's host: one with mutual TLS in front of the dashboard on loopback, and
plain ones on loopback.

Dask's dashboard has no authentication, even if Dask's comms use TLS. Connections through Session
Manager arrive on the host's loopback, to which its agent connects
(https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-working-with-sessions-start.html),
and are passed on unchanged to the ports that require a certificate.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import sys
from collections.abc import Mapping
from typing import Any

CHUNK_BYTES = 65_536

#: The role whose certificates open the dashboard. Hosts' certificates have the same authority, and
#: are for Dask's own connections.
CLIENT_ROLE = "client"


def server_context(*, ca: str, cert: str, key: str) -> ssl.SSLContext:
    """Return a TLS context that requires a certificate of the cluster's authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    # As in Dask, which uses the same certificates.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.load_verify_locations(ca)
    context.load_cert_chain(cert, key)
    return context


def roles_of(certificate: Mapping[str, Any] | None) -> list[str]:
    """Return the roles that a certificate is for: the organizational units of its subject, as
    ``SSLSocket.getpeercert`` gives it.
    """
    subject = (certificate or {}).get("subject", ())
    return [
        value
        for relative in subject
        for name, value in relative
        if name == "organizationalUnitName"
    ]


class Forward:
    """Accepts connections of the cluster's clients at an address and forwards each to another.

    The context is that of :func:`server_context`. None: bytes are forwarded unchanged.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        target_port: int,
        context: ssl.SSLContext | None,
        target_host: str = "127.0.0.1",
    ) -> None:
        self._host = host
        self._port = port
        self._target_host = target_host
        self._target_port = target_port
        self._context = context
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._refused: set[str] = set()

    async def start(self) -> None:
        """Listen; raise ``OSError`` if the port is taken."""
        self._server = await asyncio.start_server(
            self._accept, self._host, self._port, ssl=self._context
        )

    async def close(self) -> None:
        """Stop listening and end all connections."""
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if not self._lets_in(writer):
                return
            inner_reader, inner_writer = await asyncio.open_connection(
                self._target_host, self._target_port
            )
            try:
                await asyncio.gather(_pump(reader, inner_writer), _pump(inner_reader, writer))
            finally:
                await _close(inner_writer)
        except (OSError, asyncio.CancelledError):
            # Clients may disconnect at any time; closing cancels.
            pass
        finally:
            await _close(writer)
            self._tasks.discard(task)

    def _lets_in(self, writer: asyncio.StreamWriter) -> bool:
        roles = roles_of(writer.get_extra_info("peercert"))
        # Without a context, the destination requires the certificate.
        if self._context is None or roles == [CLIENT_ROLE]:
            return True
        refused = (
            f"{', '.join(roles) or 'no role'} from "
            f"{(writer.get_extra_info('peername') or ('?',))[0]}"
        )
        if refused not in self._refused:
            self._refused.add(refused)
            print(
                f"the dashboard was refused to a certificate for {refused}: it is for clients",
                file=sys.stderr,
            )
        return False


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(CHUNK_BYTES):
        writer.write(data)
        await writer.drain()
    # TLS has no half-closed connections: its side closes completely, so that the other pump ends
    # too.
    if writer.can_write_eof():
        writer.write_eof()
    else:
        writer.close()


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError, asyncio.CancelledError, TimeoutError):
        async with asyncio.timeout(2):
            await writer.wait_closed()
