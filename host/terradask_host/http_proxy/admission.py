"""Token checks of the dashboard's proxy: in a link, then in a cookie, or in each path. Pure."""

from __future__ import annotations

import hmac
import html
import secrets
from dataclasses import dataclass, field

from terradask_host.http_proxy.request import Request

#: The token's name in a link; Jupyter's proxies already use `token`.
TOKEN_NAME = "terradask-token"  # noqa: S105

#: 128 bits, which make 22 characters.
TOKEN_BYTES = 16

#: Names of the local machine in browsers.
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})

_REASONS = {200: "OK", 400: "Bad Request", 403: "Forbidden", 502: "Bad Gateway"}


@dataclass(frozen=True)
class Admission:
    """The rules of one proxy.

    Parameters
    ----------
    secure
        Whether browsers use TLS, so that the cookie is sent over TLS only.
    hosts
        Allowed host names, against DNS rebinding; None: any, since a load balancer's is unknown.
    token
        The token. By default a new one.
    """

    secure: bool
    hosts: frozenset[str] | None
    token: str = field(default_factory=lambda: secrets.token_urlsafe(TOKEN_BYTES), repr=False)
    #: Whether the token is in each request's path, without a cookie: for browsers that send none,
    #: as in a frame of another site.
    in_path: bool = False
    #: The service's name, and the place that shows its link.
    what: str = "dashboard"
    shown_by: str = "cluster.dashboard_link"
    #: Unique to each proxy: ports of one address share cookies.
    cookie: str = field(default_factory=lambda: f"terradask-{secrets.token_hex(4)}")

    def link(self, link: str) -> str:
        """Return a link with the token in it."""
        if self.in_path:
            address, mark, query = link.partition("?")
            before, _, page = address.rpartition("/")
            return f"{before}/{self.token}/{page}{mark}{query}"
        return f"{link}{'&' if '?' in link else '?'}{TOKEN_NAME}={self.token}"

    def judge(self, request: Request) -> bytes | None:
        """Return the answer that refuses or redirects a request; None: it is admitted."""
        if self.hosts is not None and request.host_name not in self.hosts:
            why = f"The {self.what} is not served under this name."
            return refusal(403, f"{why} Open the link as it was given.")
        # A proxy in front may use TLS where this one doesn't.
        schemes = ("https",) if self.secure else ("https", "http")
        own_origins = {f"{scheme}://{request.host}" for scheme in schemes}
        if any(origin.lower() not in own_origins for origin in request.values("origin")):
            return refusal(403, f"A page of another origin requested the {self.what}.")
        if self.in_path:
            return None if self._is_token(request.path.split("/")[1]) else self._closed()
        return self._judge_cookie(request)

    def _judge_cookie(self, request: Request) -> bytes | None:
        shown = request.query_value(TOKEN_NAME)
        if shown is not None:
            if request.method != "GET" or not self._is_token(shown):
                why = f"The token in this link is not valid for this {self.what}."
                return refusal(403, f"{why} Get the link again.")
            return self._welcome(request)
        if not any(self._is_token(value) for value in request.cookies(self.cookie)):
            return self._closed()
        return None

    def _closed(self) -> bytes:
        why = f"The {self.what} needs a link with its token; {self.shown_by} shows it."
        return refusal(403, why)

    def _is_token(self, value: str) -> bool:
        return hmac.compare_digest(value.encode("latin-1"), self.token.encode())

    def _welcome(self, request: Request) -> bytes:
        """Set the cookie, and redirect to the same page without the token.

        A page redirects, not status 303: a strict cookie isn't sent along redirects that began on
        another site, such as a notebook's. The target is relative and the cookie has no path, so
        that both refer to the browser's path behind a proxy.
        """
        query = "&".join(request.without_query(TOKEN_NAME))
        target = html.escape(
            "./" + request.path.rpartition("/")[2] + ("?" + query if query else "")
        )
        cookie = (
            f"{self.cookie}={self.token}; HttpOnly; "
            f"SameSite=Strict{'; Secure' if self.secure else ''}"
        )
        head = f'<meta http-equiv="refresh" content="0; url={target}"><title>Dask</title>'
        return _page(200, head, f'<a href="{target}">The {self.what}</a>', f"Set-Cookie: {cookie}")


def refusal(status: int, why: str) -> bytes:
    """Return an error page with its reason."""
    return _page(status, f"<title>{_REASONS[status]}</title>", f"<p>{html.escape(why)}</p>")


def _page(status: int, head: str, body: str, *headers: str) -> bytes:
    content = (
        '<!doctype html><html lang="en"><head><meta '
        f'charset="utf-8">{head}</head><body>{body}</body></html>\n'
    ).encode()
    own = ("Referrer-Policy: no-referrer", "Content-Security-Policy: default-src 'none'")
    return answer(status, "text/html; charset=utf-8", content, *own, *headers)


def answer(status: int, content_type: str, content: bytes, *headers: str) -> bytes:
    """Return an answer that closes its connection."""
    lines = [
        f"HTTP/1.1 {status} {_REASONS[status]}",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(content)}",
        "Connection: close",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        *headers,
    ]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + content
