"""Which requests the dashboard admits: those with the token, once in a link and then in a
cookie, or each time in the path. Pure.
"""

from __future__ import annotations

import hmac
import html
import secrets
from dataclasses import dataclass, field

from terradask_host.http_proxy.request import Request

#: The token's name in a link: a name of our own, since Jupyter's proxies take `token` for theirs.
TOKEN_NAME = "terradask-token"  # noqa: S105

#: 128 bits, which make 22 characters.
TOKEN_BYTES = 16

#: What a browser on the same machine calls it.
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})

_REASONS = {200: "OK", 400: "Bad Request", 403: "Forbidden", 502: "Bad Gateway"}


@dataclass(frozen=True)
class Admission:
    """The rules of one proxy.

    Parameters
    ----------
    secure
        Whether browsers speak TLS to it: the cookie then goes over TLS alone.
    hosts
        Names under which browsers may ask for it, so that no other name can be made to lead here;
        None: any, since a proxy's is not known.
    token
        The token. By default a new one.
    """

    secure: bool
    hosts: frozenset[str] | None
    token: str = field(default_factory=lambda: secrets.token_urlsafe(TOKEN_BYTES), repr=False)
    #: Whether the token is in the path of each request, and no cookie is used: pages then also
    #: work where a browser sends none, as in a frame of another site.
    in_path: bool = False
    #: What is behind it, and where its link is shown.
    what: str = "dashboard"
    shown_by: str = "cluster.dashboard_link"
    #: Of its own for each proxy: cookies of one address are common to all of its ports.
    cookie: str = field(default_factory=lambda: f"terradask-{secrets.token_hex(4)}")

    def link(self, link: str) -> str:
        """Return a link with the token in it."""
        if self.in_path:
            address, mark, query = link.partition("?")
            before, _, page = address.rpartition("/")
            return f"{before}/{self.token}/{page}{mark}{query}"
        return f"{link}{'&' if '?' in link else '?'}{TOKEN_NAME}={self.token}"

    def judge(self, request: Request) -> bytes | None:
        """Return what a request is answered; None: it is let in."""
        if self.hosts is not None and request.host_name not in self.hosts:
            return refusal(
                403,
                f"The {self.what} is not served under this name. Open the link as it was given.",
            )
        # A proxy in front may speak TLS to the browser where this one doesn't.
        own_origins = (
            {f"https://{request.host}"}
            if self.secure
            else {f"https://{request.host}", f"http://{request.host}"}
        )
        if any(origin.lower() not in own_origins for origin in request.values("origin")):
            return refusal(403, f"A page of another origin asked for the {self.what}.")
        if self.in_path:
            return None if self._is_token(request.path.split("/")[1]) else self._closed()
        return self._judge_cookie(request)

    def _judge_cookie(self, request: Request) -> bytes | None:
        shown = request.query_value(TOKEN_NAME)
        if shown is not None:
            if request.method != "GET" or not self._is_token(shown):
                return refusal(
                    403,
                    (
                        f"The token in this link is not this {self.what}'s, or no longer. Ask for "
                        "the link again."
                    ),
                )
            return self._welcome(request)
        if not any(self._is_token(value) for value in request.cookies(self.cookie)):
            return self._closed()
        return None

    def _closed(self) -> bytes:
        return refusal(
            403,
            f"The {self.what} opens with the link that has the token in it, such as "
            f"{self.shown_by} shows.",
        )

    def _is_token(self, value: str) -> bool:
        return hmac.compare_digest(value.encode("latin-1"), self.token.encode())

    def _welcome(self, request: Request) -> bytes:
        """Hand out the cookie, and lead to the same page without the token.

        By a page and not by status 303: a strict cookie isn't sent along redirects that began on
        another site, such as a notebook's. Relative, and the cookie without a path: behind a proxy,
        both are about the path that the browser sees.
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
    """Return an answer that says why there is no other."""
    return _page(status, f"<title>{_REASONS[status]}</title>", f"<p>{html.escape(why)}</p>")


def _page(status: int, head: str, body: str, *headers: str) -> bytes:
    content = (
        '<!doctype html><html lang="en"><head><meta '
        f'charset="utf-8">{head}</head><body>{body}</body></html>\n'
    ).encode()
    own = ("Referrer-Policy: no-referrer", "Content-Security-Policy: default-src 'none'")
    return answer(status, "text/html; charset=utf-8", content, *own, *headers)


def answer(status: int, content_type: str, content: bytes, *headers: str) -> bytes:
    """Return an answer that is the last of its connection."""
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
