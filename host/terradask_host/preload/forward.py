"""Forwards on a scheduler's host: mutual TLS in front of the dashboard's socket, plain ones on
loopback, and, if the settings enable it, HTTPS with a token, for browsers without a certificate.

Dask's dashboard has no authentication, even if Dask's comms use TLS. Connections through Session
Manager are passed on unchanged to the ports that require a certificate.

AWS (documented): Session Manager's agent connects to the forwarded port on the host's loopback.
https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-working-with-sessions-start.html
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from terradask_host.http_proxy.admission import Admission, refusal
from terradask_host.http_proxy.jupyter_site import BASE_PATH, PAGE
from terradask_host.http_proxy.pages import watching
from terradask_host.http_proxy.pipes import Dial, Listener, Streams, join
from terradask_host.http_proxy.server import ProxyServer, Site

#: The role whose certificates open the dashboard. Hosts' certificates have the same authority, but
#: only open Dask's own connections.
CLIENT_ROLE = "client"
#: The role of a certificate that opens only its own page. The authority hasn't signed it, because
#: Dask's ports would accept it then.
METRICS_ROLE = "metrics"

#: Serves a connection in place of the destination.
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def server_context(
    *, ca: str, cert: str, key: str, metrics_cert: str | None = None
) -> ssl.SSLContext:
    """Return a TLS context that requires a certificate of the authority, or the one for metrics."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    # As in Dask, which uses the same certificates.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.load_verify_locations(ca)
    if metrics_cert is not None:
        context.load_verify_locations(metrics_cert)
    context.load_cert_chain(cert, key)
    return context


def roles_of(certificate: Mapping[str, Any] | None) -> list[str]:
    """Return a certificate's roles: the organizational units of its subject in ``getpeercert``."""
    subject = (certificate or {}).get("subject", ())
    pairs = (pair for relative in subject for pair in relative)
    return [value for name, value in pairs if name == "organizationalUnitName"]


class Forward(Listener):
    """Forwards the connections of the cluster's clients.

    Parameters
    ----------
    host, port
        The listening address.
    dial
        Connects to the destination.
    context
        That of :func:`server_context`. None: bytes are forwarded unchanged.
    by_protocol
        Destinations of other ALPN protocols. The certificate admits the client; the sites' own
        rules aren't applied.
    by_role
        Servers for roles other than clients; all other roles are refused.
    """

    last_seconds = 2.0

    def __init__(
        self,
        host: str,
        port: int,
        *,
        dial: Dial,
        context: ssl.SSLContext | None,
        by_protocol: Mapping[str, Site] | None = None,
        by_role: Mapping[str, Serve] | None = None,
    ) -> None:
        super().__init__()
        self._address = (host, port)
        self._behind = dial
        self._context = context
        self._by_protocol = dict(by_protocol or {})
        self._by_role = dict(by_role or {})
        if context is not None and self._by_protocol:
            context.set_alpn_protocols(list(self._by_protocol))
        self._refused: set[str] = set()

    async def start(self) -> None:
        """Listen; raise ``OSError`` if the port is taken."""
        await self.listen(*self._address, self._context)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward a connection, or refuse it."""
        roles = roles_of(writer.get_extra_info("peercert"))
        serve = self._by_role.get(roles[0]) if len(roles) == 1 else None
        if serve is not None:
            await serve(reader, writer)
        elif not self._lets_in(writer, roles):
            why = "This certificate is for another role: clients have one."
            writer.write(refusal(403, why))
        elif (inner := await self._dial(writer)) is not None:
            # A scheduler may read no bytes for long.
            await join((reader, writer), inner, upgrade=False, patient=True)

    async def _dial(self, writer: asyncio.StreamWriter) -> Streams | None:
        """Connect to the requested destination; None, with an error page, if a site doesn't answer.

        Raises ``OSError``.
        """
        tls = writer.get_extra_info("ssl_object")
        site = self._by_protocol.get(tls.selected_alpn_protocol()) if tls is not None else None
        if site is None:
            return await self._behind()
        try:
            return await site.dial()
        except OSError:
            writer.write(refusal(502, site.silent))
            return None

    def _lets_in(self, writer: asyncio.StreamWriter, roles: list[str]) -> bool:
        # Without a context, the destination requires the certificate.
        if self._context is None or roles == [CLIENT_ROLE]:
            return True
        peer = (writer.get_extra_info("peername") or ("?",))[0]
        refused = f"{', '.join(roles) or 'no role'} from {peer}"
        if refused not in self._refused:
            self._refused.add(refused)
            why = f"the dashboard refused a certificate for {refused}: it is for clients"
            print(why, file=sys.stderr)
        return False


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
