"""Forward the dashboard and the notebook server to the client's loopback over mutual TLS.

Dask's dashboard has no authentication. On the scheduler's host it listens only on loopback, behind
a proxy that requires the client's certificate. This module is the client's end. Other users of this
machine and web pages in a browser can reach its loopback too, so this end requires the token in the
link.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from distributed.utils import format_dashboard_link

from terradask._common.once import OncePerCause
from terradask._dask.commands import pack_command, read_reply
from terradask.errors import ClusterError, VersionMismatch
from terradask_host.commands import Command, MakeReport, ReadDashboardLink
from terradask_host.http_proxy.admission import LOOPBACK, Admission
from terradask_host.http_proxy.jupyter_site import PAGE, PROTOCOL, jupyter_site
from terradask_host.http_proxy.pages import COMMAND_PAGE, is_dask_page
from terradask_host.http_proxy.server import ProxyServer, Site

if TYPE_CHECKING:
    from terradask._clusters.attach import Attachment
    from terradask_host.http_proxy.pipes import Streams

#: Local address of the forward.
ADDRESS = "127.0.0.1"

#: Longest wait for the scheduler's host, before the browser gets an error.
_DIAL_SECONDS = 20.0

_MAX_PAGE_BYTES = 65_536

logger = logging.getLogger("terradask")

_unusable = OncePerCause()

_PATH = re.compile(r"/status\?terradask-token=[\w-]{1,200}", re.ASCII)
_JUPYTER_PATH = re.compile(rf"{re.escape(PAGE)}\?terradask-token=[\w-]{{1,200}}", re.ASCII)

#: Finds host and port of the dashboard's endpoint, which requires a client's certificate.
FindEndpoint = Callable[[], Awaitable[tuple[str, int]]]


@dataclass(frozen=True)
class SharedDashboard:
    """The dashboard over HTTPS of a cluster, for people without terradask.

    Parameters
    ----------
    link
        Opens the dashboard from addresses that the network's ingress rules allow. Contains the
        token, and so isn't in the repr.
    fingerprint
        SHA-256 of the scheduler host's certificate, which a browser shows, in hexadecimal digits.
    jupyter_link
        Opens the notebook server in the same way, with a token of its own: it runs any code on the
        cluster. None for a cluster without one. Not in the repr either.
    """

    link: str = field(repr=False)
    fingerprint: str
    jupyter_link: str | None = field(default=None, repr=False)


class Forward:
    """A proxy on 127.0.0.1 that forwards requests with its token to the scheduler's host.

    Parameters
    ----------
    find
        Finds the dashboard's endpoint, which serves the notebook server too.
    context
        The client's TLS context, for this forward alone.
    site
        The served site and its admission rules.
    """

    def __init__(self, find: FindEndpoint, context: ssl.SSLContext, site: Site) -> None:
        self._find = find
        self._context = context
        self._site = site
        self._proxy = ProxyServer(site)

    @property
    def port(self) -> int | None:
        """The local port, or None when it isn't listening."""
        return self._proxy.port

    async def start(self) -> None:
        """Listen on a free port of 127.0.0.1."""
        await self._proxy.start(ADDRESS, 0)

    async def close(self) -> None:
        """Stop listening and end every connection."""
        await self._proxy.close()

    async def _dial(self) -> Streams:
        """Connect to the forward on the scheduler's host; raises ``OSError``."""
        async with asyncio.timeout(_DIAL_SECONDS):
            host, port = await self._find()
            return await asyncio.open_connection(host, port, ssl=self._context)


class DashboardForward(Forward):
    """Forward to the dashboard, and to the page for the scheduler's commands."""

    def __init__(self, find: FindEndpoint, context: ssl.SSLContext) -> None:
        admission = Admission(secure=False, hosts=_names_of_this_machine(), in_path=True)
        super().__init__(find, context, Site(admission, self._dial, opens=is_dask_page))

    @property
    def link(self) -> str:
        """The link with the token; empty when not served."""
        return "" if not self.port else self._site.admission.link(_dashboard_url(self.port))

    async def send(self, cluster: str, command: Command) -> Any:
        """Send a cluster's scheduler a command over the forward; return its answer.

        Raises as `read_reply`, and ``OSError``.
        """
        status, content = await self._post(COMMAND_PAGE, pack_command(command))
        # An older host has no such page.
        unanswered = None if status == HTTPStatus.NOT_FOUND else b""
        return read_reply(cluster, command, content if status == HTTPStatus.OK else unanswered)

    async def request_report(self, cluster: str, *, last: bool = False) -> str | None:
        """Have a cluster make and store its performance report; return the reason of a failure, or
        None. Raises ``OSError``.

        With `last`, no report is made if no task has ended since the previous one.
        """
        try:
            await self.send(cluster, MakeReport(last))
        except ClusterError as error:
            return str(error.given or f"{error.problem} {error.advice}")
        return None

    async def shared(self, attachment: Attachment, *, public: bool) -> SharedDashboard:
        """Return the dashboard over HTTPS. Raises `ClusterError`, ``OSError``."""
        cluster = attachment.descriptor.cluster
        port, path, jupyter_path = _read_paths(await self.send(cluster, ReadDashboardLink()))
        if port is None:
            raise VersionMismatch(
                f"The hosts of cluster {cluster!r} serve no dashboard over HTTPS: they were "
                "started before use_dashboard_https was set.",
                cluster=cluster,
                advice="terradask apply network, then stop and start the cluster",
            )
        host = attachment.address(public=public).partition("://")[2].rpartition(":")[0]
        certificate = ssl.PEM_cert_to_DER_cert(attachment.keys.scheduler.cert)
        base = f"https://{host}:{port}"
        return SharedDashboard(
            base + path,
            hashlib.sha256(certificate).hexdigest(),
            None if jupyter_path is None else base + jupyter_path,
        )

    async def _post(self, path: str, content: bytes) -> tuple[int, bytes]:
        """Return status and content of a small page of the scheduler's host; raises ``OSError``."""
        reader, writer = await self._dial()
        try:
            async with asyncio.timeout(_DIAL_SECONDS):
                head = f"POST {path} HTTP/1.0\r\nContent-Length: {len(content)}\r\n\r\n"
                writer.write(head.encode() + content)
                status = int((await reader.readuntil(b"\r\n\r\n")).split(maxsplit=2)[1])
                answer = b""
                while len(answer) < _MAX_PAGE_BYTES and (more := await reader.read(4096)):
                    answer += more
            return status, answer
        except (
            asyncio.IncompleteReadError,
            asyncio.LimitOverrunError,
            IndexError,
            ValueError,
        ) as e:
            raise ConnectionAbortedError("the dashboard's answer is unreadable") from e
        finally:
            writer.close()

    async def check(self) -> None:
        """Connect once; raises ``OSError`` if the scheduler's host doesn't answer."""
        _, writer = await self._dial()
        writer.close()


class JupyterForward(Forward):
    """Forward to the notebook server, with a separate token, since it runs code."""

    def __init__(self, find: FindEndpoint, context: ssl.SSLContext) -> None:
        context.set_alpn_protocols([PROTOCOL])
        super().__init__(find, context, jupyter_site(self._dial, secure=False, hosts=LOOPBACK))

    @property
    def link(self) -> str:
        """The link with the token; empty when not served."""
        return (
            ""
            if not self.port
            else self._site.admission.link(f"http://{ADDRESS}:{self.port}{PAGE}")
        )

    async def _dial(self) -> Streams:
        reader, writer = await super()._dial()
        if writer.get_extra_info("ssl_object").selected_alpn_protocol() != PROTOCOL:
            # A host without a notebook server connects to the dashboard regardless of the protocol.
            writer.close()
            raise ConnectionAbortedError("the scheduler's host has no notebook server")
        return reader, writer


def _read_paths(answer: Any) -> tuple[int | None, str, str | None]:
    """Return port and paths; no port for an invalid answer: tasks can change it."""
    try:
        port, path, jupyter_path = answer["port"], answer["path"], answer.get("jupyter_path")
    except (LookupError, TypeError, ValueError, AttributeError):
        return None, "", None
    valid = (
        isinstance(port, int)
        and isinstance(path, str)
        and _PATH.fullmatch(path)
        and (
            jupyter_path is None
            or (isinstance(jupyter_path, str) and _JUPYTER_PATH.fullmatch(jupyter_path))
        )
    )
    return (port, path, jupyter_path) if valid else (None, "", None)


def _names_of_this_machine() -> frozenset[str] | None:
    """Return the host names for browsers; None if the link goes to a proxy with another name."""
    return LOOPBACK if urlsplit(_dashboard_url(0)).hostname in LOOPBACK else None


def _dashboard_url(port: int) -> str:
    """Return the link in the form of ``distributed.dashboard.link``; the plain link if that
    template fails, for example because a variable isn't set.
    """
    try:
        link: str = format_dashboard_link(ADDRESS, port)
        _ = urlsplit(link).hostname
    except Exception as error:  # noqa: BLE001  a template of the user's may fail in any way
        logger.log(
            _unusable.level(repr(error)),
            "dashboard: distributed.dashboard.link of Dask's configuration fails (%s: "
            "%s); the link goes to 127.0.0.1",
            type(error).__name__,
            error,
        )
        return f"http://{ADDRESS}:{port}/status"
    return link
