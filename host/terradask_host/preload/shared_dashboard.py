"""The dashboard over HTTPS, for browsers that have no certificate of the cluster: where a cluster asks for it, behind a token."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any

from terradask_host.http_proxy.admission import Admission
from terradask_host.http_proxy.pipes import Streams
from terradask_host.http_proxy.server import ProxyServer

#: The operation by which a client, whose connection is mutual TLS, is told the token; part of what clients rely on.
SHARED_DASHBOARD_OPERATION = "terradask_shared_dashboard"


class SharedDashboard:
    """A proxy with TLS in front of a scheduler's dashboard. Its token is made with it, and is kept in this process's memory alone.

    `wanted` has ``host``, ``port``, and the paths ``cert`` and ``key``; None: there is none, and clients are told so.
    """

    def __init__(self, scheduler: Any, wanted: Mapping[str, Any] | None) -> None:
        self._wanted = wanted
        self._target_port: int = scheduler.http_server.port
        # Under whatever name: nobody knows that of a load balancer, or of a record in somebody's DNS.
        self._admission = Admission(secure=True, hosts=None)
        self._proxy = ProxyServer(self._admission, self._dial)
        scheduler.handlers[SHARED_DASHBOARD_OPERATION] = self.tell

    async def start(self) -> None:
        """Listen, where it is wanted; raises ``OSError`` where the port is taken."""
        if self._wanted is None:
            return
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_cert_chain(self._wanted["cert"], self._wanted["key"])
        await self._proxy.start(self._wanted["host"], self._wanted["port"], context=context)

    async def close(self) -> None:
        """Stop listening and end every connection."""
        await self._proxy.close()

    def tell(self) -> dict[str, Any]:
        """Return the port, and the path that opens the dashboard; without them where there is none."""
        if self._proxy.port is None:
            return {}
        return {"port": self._proxy.port, "path": self._admission.link("/status")}

    async def _dial(self) -> Streams:
        return await asyncio.open_connection("127.0.0.1", self._target_port)
