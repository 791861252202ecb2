"""The dashboard on the client's own loopback, forwarded over mutual TLS.

Dask's dashboard has no authentication. On the scheduler's host it listens only on loopback, behind
a proxy that requires the client's certificate; this is the client's end. Other users of this
machine and web pages in a browser can reach its loopback too, so the proxy here requires a token,
which is in the link.
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

#: Longest wait for the scheduler's host, before the browser gets an error.
_DIAL_SECONDS = 20.0


class DashboardForward:
    """A proxy on 127.0.0.1 that carries what shows its token to the scheduler's host, over mutual
    TLS.
    """

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
        """Link to the dashboard on this machine's loopback, forwarded to the scheduler's host over
        mutual TLS.

        The link contains this object's token; requests without it, such as those of other users of
        this machine, are refused. Its form follows Dask's ``distributed.dashboard.link``, for
        proxies such as Jupyter's.
        """
        if self._proxy is None or self._proxy.port is None:
            return ""
        return self._proxy.admission.link(format_dashboard_link(_ADDRESS, self._proxy.port))

    async def start(self) -> None:
        """Listen on a free port of 127.0.0.1, with a new token."""
        self._proxy = ProxyServer(
            Admission(secure=False, hosts=_names_of_this_machine()), self._dial
        )
        await self._proxy.start(_ADDRESS, 0)

    async def close(self) -> None:
        """Stop listening and end every connection."""
        if self._proxy is not None:
            await self._proxy.close()

    async def _dial(self) -> Streams:
        async with asyncio.timeout(_DIAL_SECONDS):
            return await asyncio.open_connection(self._host, self._port, ssl=self._context)


def _names_of_this_machine() -> frozenset[str] | None:
    """Return the host names that browsers may use; None if the link leads to a proxy, whose name
    they use.
    """
    return LOOPBACK if urlsplit(format_dashboard_link(_ADDRESS, 0)).hostname in LOOPBACK else None
