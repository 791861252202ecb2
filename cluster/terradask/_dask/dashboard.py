"""The dashboard on the client's own loopback, forwarded over mutual TLS.

Dask's dashboard has no authentication of its own. On the scheduler's host it listens on loopback alone, behind a forward that demands
the client's certificate; this is the other end. Other users of this machine reach its loopback too, and so do the pages of
any site in a browser: the one here asks for a token, which is in the link.
"""

from __future__ import annotations

import asyncio
import ssl
from urllib.parse import urlsplit

from distributed.utils import format_dashboard_link

from terradask_host.http_proxy.admission import LOOPBACK, Admission
from terradask_host.http_proxy.pipes import Streams
from terradask_host.http_proxy.server import ProxyServer

_ADDRESS = "127.0.0.1"

#: So long a scheduler's host may take to answer, before the browser is told.
_DIAL_SECONDS = 20.0


class DashboardForward:
    """A proxy on 127.0.0.1 that carries what shows its token to the scheduler's host, over mutual TLS."""

    def __init__(self, host: str, port: int, context: ssl.SSLContext) -> None:
        self._host = host
        self._port = port
        self._context = context
        self._proxy: ProxyServer | None = None

    @property
    def port(self) -> int | None:
        """The local port, or None when it isn't listening."""
        return None if self._proxy is None else self._proxy.port

    @property
    def link(self) -> str:
        """Link to the dashboard on this machine's loopback; behind it lies mutual TLS to the scheduler's host.

        The link has a token in it, which is this object's own: whoever has none, such as other users of this machine, is refused. As Dask's
        ``distributed.dashboard.link`` has it, for proxies such as Jupyter's.
        """
        if self._proxy is None or self._proxy.port is None:
            return ""
        return self._proxy.admission.link(format_dashboard_link(_ADDRESS, self._proxy.port))

    async def start(self) -> None:
        """Listen on a free port of 127.0.0.1, with a token of its own."""
        self._proxy = ProxyServer(Admission(secure=False, hosts=_names_of_this_machine()), self._dial)
        await self._proxy.start(_ADDRESS, 0)

    async def close(self) -> None:
        """Stop listening and end every connection."""
        if self._proxy is not None:
            await self._proxy.close()

    async def _dial(self) -> Streams:
        async with asyncio.timeout(_DIAL_SECONDS):
            return await asyncio.open_connection(self._host, self._port, ssl=self._context)


def _names_of_this_machine() -> frozenset[str] | None:
    """Return the names under which browsers come; None where the link leads to a proxy, whose name they were given."""
    return LOOPBACK if urlsplit(format_dashboard_link(_ADDRESS, 0)).hostname in LOOPBACK else None
