"""The notebook server of a scheduler's host on the client's own loopback: forwarded as the
dashboard is, with a token of its own, since it runs code.
"""

from __future__ import annotations

import ssl

from terradask._dask.dashboard import ADDRESS, FindEndpoint, dial
from terradask_host.http_proxy.admission import LOOPBACK
from terradask_host.http_proxy.jupyter_site import PAGE, PROTOCOL, jupyter_site
from terradask_host.http_proxy.pipes import Streams
from terradask_host.http_proxy.server import ProxyServer


class JupyterForward:
    """A proxy on 127.0.0.1: carries requests with its token to the notebook server, by mutual TLS.

    Parameters
    ----------
    find
        Finds the dashboard's endpoint, which leads to the notebook server too.
    context
        The client's, for this forward alone.
    """

    def __init__(self, find: FindEndpoint, context: ssl.SSLContext) -> None:
        self._find = find
        self._context = context
        context.set_alpn_protocols([PROTOCOL])
        self._site = jupyter_site(self._dial, secure=False, hosts=LOOPBACK)
        self._proxy = ProxyServer(self._site)

    @property
    def link(self) -> str:
        """The link, with the token; empty when it isn't served."""
        port = self._proxy.port
        return "" if port is None else self._site.admission.link(f"http://{ADDRESS}:{port}{PAGE}")

    async def start(self) -> None:
        """Listen on a free port of 127.0.0.1."""
        await self._proxy.start(ADDRESS, 0)

    async def close(self) -> None:
        """Stop listening and end every connection."""
        await self._proxy.close()

    async def _dial(self) -> Streams:
        reader, writer = await dial(self._find, self._context)
        if writer.get_extra_info("ssl_object").selected_alpn_protocol() != PROTOCOL:
            # A host without a notebook server leads to the dashboard, whatever it is asked for.
            writer.close()
            raise ConnectionAbortedError("the scheduler's host has no notebook server")
        return reader, writer
