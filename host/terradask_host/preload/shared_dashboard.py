"""Serve the dashboard over HTTPS with a token, for browsers without a certificate of the cluster,
if the settings enable it.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from terradask_host.http_proxy.admission import Admission
from terradask_host.http_proxy.jupyter_site import BASE_PATH, PAGE
from terradask_host.http_proxy.pages import watching
from terradask_host.http_proxy.pipes import Dial
from terradask_host.http_proxy.server import ProxyServer, Site


class SharedDashboard:
    """A TLS proxy in front of a scheduler's dashboard, whose token is only in its memory.

    `wanted` has ``host``, ``port``, and the paths ``cert`` and ``key``; None: there is no proxy.
    `dial` connects to the dashboard; `jupyter` is the notebook server, if there is one.
    """

    def __init__(
        self,
        wanted: Mapping[str, Any] | None,
        dial: Dial,
        jupyter: Site | None = None,
    ) -> None:
        self._wanted = wanted
        # Any host name: a load balancer's, or that of a DNS record, is unknown here.
        self._admission = Admission(secure=True, hosts=None)
        # Its own token: a link to the dashboard is read-only.
        self._jupyter = jupyter
        beside = {} if jupyter is None else {BASE_PATH: jupyter}
        watched = Site(self._admission, dial, opens=watching(_plots()))
        self._proxy = ProxyServer(watched, beside)

    async def start(self) -> None:
        """Listen, if it is wanted; raises ``OSError`` if the port is taken."""
        if self._wanted is None:
            return
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_cert_chain(self._wanted["cert"], self._wanted["key"])
        await self._proxy.start(self._wanted["host"], self._wanted["port"], context=context)

    async def close(self) -> None:
        """Stop listening and close every connection."""
        await self._proxy.close()

    def link(self) -> dict[str, Any] | None:
        """Return the port, and the paths of dashboard and notebook server; None without a proxy."""
        if self._proxy.port is None:
            return None
        found = {"port": self._proxy.port, "path": self._admission.link("/status")}
        if self._jupyter is not None:
            found["jupyter_path"] = self._jupyter.admission.link(PAGE)
        return found


def _plots() -> list[str]:
    """Return the paths of this Dask's plots."""
    try:
        from distributed.dashboard.scheduler import applications
    except ImportError:
        # Without Bokeh, the page reports that it is missing.
        return ["/status"]
    return list(applications)
