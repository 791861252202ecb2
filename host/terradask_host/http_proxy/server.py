"""The proxy's listener: checks each request's head, and joins admitted ones to the dashboard."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from terradask_host.http_proxy.admission import Admission, refusal
from terradask_host.http_proxy.pages import Opens
from terradask_host.http_proxy.pipes import Dial, Listener, join
from terradask_host.http_proxy.request import (
    END_OF_HEAD,
    MAX_HEAD_BYTES,
    BadRequest,
    Request,
    parse_request,
)

#: Time for a browser's TLS handshake and for a request's head: some open connections in advance.
HEAD_SECONDS = 60.0
HANDSHAKE_SECONDS = 10.0

#: Most connections not yet admitted: strangers must not exhaust the file descriptors of a
#: scheduler's process.
MOST_WAITING = 200


#: The browser's message when the dashboard doesn't answer.
SILENT = "The scheduler's host doesn't answer. Has the cluster stopped, or its scheduler died?"

#: The browser's message for a page that a link doesn't open.
CLOSED = "This link is read-only: it doesn't open this page."


@dataclass(frozen=True)
class Site:
    """A service behind a proxy, and its admission rules.

    Parameters
    ----------
    admission
        Decides which requests are admitted.
    dial
        Connects to the service. The browser gets a message for ``OSError`` and ``TimeoutError``.
    silent
        That message.
    opens
        Filter of admitted requests. By default all are passed on.
    """

    admission: Admission
    dial: Dial
    silent: str = SILENT
    opens: Opens = lambda _: True


class ProxyServer(Listener):
    """Accepts HTTP connections, and passes on a site's admitted requests.

    `beside` are further sites by path prefix, each with its own token.
    """

    def __init__(self, site: Site, beside: Mapping[str, Site] | None = None) -> None:
        super().__init__()
        self._site = site
        self._beside = dict(beside or {})
        self._waiting = 0

    async def start(self, host: str, port: int, *, context: ssl.SSLContext | None = None) -> None:
        """Listen, with TLS if a context is given; port 0 is a free one.

        Raises ``OSError`` if the port is taken.
        """
        timeout = {} if context is None else {"ssl_handshake_timeout": HANDSHAKE_SECONDS}
        await self.listen(host, port, context, limit=MAX_HEAD_BYTES, **timeout)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a request, or pass it to the service."""
        if self._waiting < MOST_WAITING:
            await self._serve(reader, writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._waiting += 1
        try:
            request = await read_request(reader)
        except BadRequest as error:
            return writer.write(refusal(400, f"The request is invalid. {error}"))
        finally:
            self._waiting -= 1
        if request is None:
            return None
        site = self._site_of(request)
        answer = site.admission.judge(request)
        if answer is not None:
            return writer.write(answer)
        change = None
        if site.admission.in_path:
            request = without_token(request)
            change = partial(with_token, inner=request)
        if not site.opens(request):
            return writer.write(refusal(403, CLOSED))
        try:
            far = await site.dial()
        except (OSError, TimeoutError):
            return writer.write(refusal(502, site.silent))
        far[1].write(request.forwarded(without_cookie=site.admission.cookie))
        return await join((reader, writer), far, upgrade=request.is_upgrade, change_head=change)

    def _site_of(self, request: Request) -> Site:
        found = (site for path, site in self._beside.items() if request.path.startswith(path))
        return next(found, self._site)


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    """Read the head of a request; None at the end of the stream. Raises `BadRequest`."""
    try:
        async with asyncio.timeout(HEAD_SECONDS):
            head = await reader.readuntil(END_OF_HEAD)
    except TimeoutError:
        return None
    except asyncio.LimitOverrunError:
        raise BadRequest("Its head is too long.") from None
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise BadRequest("It ends in the middle.") from None
        return None
    return parse_request(head)


# ---- requests with a token at the start of their path, and their answers -------------------------


_LOCATION = re.compile(rb"(?im)^(location:[ \t]*)/(?!/)([^\r\n]*)")
_REFERRER_POLICY = re.compile(rb"(?im)^referrer-policy:[^\r\n]*\r\n")


def without_token(request: Request) -> Request:
    """Return the request without the first part of its path."""
    return replace(request, path="/" + "/".join(request.path.split("/")[2:]))


def with_token(head: bytes, inner: Request) -> bytes:
    """Return the head of an answer for the browser: redirects stay below the token, by a relative
    path, and no page sends its address to another one.
    """
    up = b"../" * (inner.path.count("/") - 1) or b"./"
    changed = _LOCATION.sub(lambda found: found[1] + up + found[2], _REFERRER_POLICY.sub(b"", head))
    return changed[: -len(END_OF_HEAD)] + b"\r\nReferrer-Policy: no-referrer" + END_OF_HEAD
