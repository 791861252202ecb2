"""The head of an HTTP/1 request, parsed strictly by RFC 9112: deviations are refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

#: The limit of Tornado, which serves the dashboard.
MAX_HEAD_BYTES = 65_536

END_OF_HEAD = b"\r\n\r\n"

_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"  # noqa: S105 - RFC 9110's word for a name
_REQUEST_LINE = re.compile(rf"({_TOKEN}) (/[!-~]*) (HTTP/1\.[01])")
_HEADER = re.compile(rf"({_TOKEN}):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._\-]+)(?::[0-9]{1,5})?")


class BadRequest(ValueError):
    """The head of a request is invalid; the text is the reason, without parts of the request."""


@dataclass(frozen=True, repr=False)
class Request:
    """The head of a request. Its repr omits headers, path and query: they may carry a token."""

    method: str
    path: str
    query: tuple[str, ...]
    version: str
    headers: tuple[tuple[str, str], ...]

    def __repr__(self) -> str:
        return f"Request({self.method!r})"

    def header(self, name: str) -> str | None:
        """Return the first header of this lowercase name."""
        return next(self.values(name), None)

    def values(self, name: str) -> Iterator[str]:
        """Return every header of this lowercase name."""
        return (value for key, value in self.headers if key.lower() == name)

    @property
    def host(self) -> str:
        """Address and port in the browser's request."""
        return (self.header("host") or "").lower()

    @property
    def host_name(self) -> str:
        """The address alone."""
        found = _HOST.fullmatch(self.host)
        return found[1].strip("[]") if found else ""

    @property
    def is_upgrade(self) -> bool:
        """Whether it requests another protocol, such as a websocket."""
        return (
            any("upgrade" in value.lower() for value in self.values("connection"))
            and self.header("upgrade") is not None
        )

    def cookies(self, name: str) -> Iterator[str]:
        """Return the values of cookies of this name."""
        for header in self.values("cookie"):
            for pair in header.split(";"):
                key, _, value = pair.strip().partition("=")
                if key == name:
                    yield value

    def query_value(self, name: str) -> str | None:
        """Return the first value of this name in the query, undecoded."""
        pairs = (pair.partition("=") for pair in self.query)
        return next((value for key, _, value in pairs if key == name), None)

    def without_query(self, name: str) -> tuple[str, ...]:
        """Return the query without parameters of this name."""
        return tuple(pair for pair in self.query if pair.partition("=")[0] != name)

    def forwarded(self, *, without_cookie: str) -> bytes:
        """Return the head for the dashboard: without a cookie, closing unless it upgrades.

        So each request has its own connection, and no request can follow behind another one.
        """
        headers = [
            (name, _without(value, without_cookie) if name.lower() == "cookie" else value)
            for name, value in self.headers
        ]
        kept = [(name, value) for name, value in headers if value or name.lower() != "cookie"]
        if not self.is_upgrade:
            hop = ("connection", "keep-alive")
            kept = [(name, value) for name, value in kept if name.lower() not in hop]
            kept.append(("Connection", "close"))
        target = self.path + ("?" + "&".join(self.query) if self.query else "")
        lines = [
            f"{self.method} {target} {self.version}",
            *(f"{name}: {value}" for name, value in kept),
        ]
        return "\r\n".join(lines).encode("latin-1") + END_OF_HEAD


def parse_request(head: bytes) -> Request:
    """Parse the head of a request.

    Raises `BadRequest` if it is invalid or ambiguous: several hosts, a length and an encoding.
    """
    if not head.endswith(END_OF_HEAD):
        raise BadRequest("It ends in the middle.")
    first, *rest = head[: -len(END_OF_HEAD)].decode("latin-1").split("\r\n")
    line = _REQUEST_LINE.fullmatch(first)
    if line is None:
        raise BadRequest("It isn't an HTTP/1 request for a path.")
    path, _, query = line[2].partition("?")
    found = [_HEADER.fullmatch(each) for each in rest]
    headers = tuple((each[1], each[2].rstrip(" \t")) for each in found if each is not None)
    if len(headers) < len(found):
        raise BadRequest("One of its headers is malformed.")
    request = Request(line[1], path, tuple(query.split("&")) if query else (), line[3], headers)
    hosts, lengths = list(request.values("host")), list(request.values("content-length"))
    if len(hosts) != 1 or not _HOST.fullmatch(hosts[0]):
        raise BadRequest("It must name one valid host.")
    if (
        any(request.values("transfer-encoding"))
        or len(lengths) > 1
        or not all(re.fullmatch("[0-9]{1,18}", each) for each in lengths)
    ):
        raise BadRequest("Its body has no valid length.")
    return request


def _without(cookies: str, name: str) -> str:
    pairs = (each.strip() for each in cookies.split(";"))
    return "; ".join(pair for pair in pairs if pair.partition("=")[0] != name)
