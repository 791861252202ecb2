"""The parser of requests' heads beside h11: whatever ours admits, h11 reads the same, and what is
passed on is one request there too. So no request can smuggle another one past the proxy's checks.
"""

from __future__ import annotations

import random

import h11
import pytest

from terradask_host.http_proxy.request import BadRequest, Request, parse_request

from ..seeds import drawn

_HEADS = (
    b"GET /status HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST /p?token=1&b HTTP/1.1\r\nHost: [::1]:8787\r\n"
    b"Content-Length: 12\r\nCookie: a=b; c=d\r\n\r\n",
    b"GET /ws HTTP/1.1\r\nhost: a.b:1\r\n"
    b"Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n",
    b"HEAD / HTTP/1.0\r\nHost: 10.0.0.1\r\nAccept: */*\r\nX-Y:\t z \t\r\n\r\n",
)
_LINES = (
    b"Host: b",
    b"Content-Length: 3",
    b"Content-Length: +3",
    b"Content-Length: 3, 3",
    b"Content-Length:",
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding : chunked",
    b"Transfer-Encoding: x",
    b"Connection: close",
    b"Cookie: token=1; token=2",
    b" folded: 1",
    b"\tHost: c",
    b"X: a\rHost: c",
    b"X: a\nHost: c",
    b"Upgrade: h2c",
    b"X: \xff\x85\xa0",
    b": 1",
    b"X : 1",
    b"",
)
_SIGNS = [
    bytes([sign]) for sign in b"\r\n \t:;,?/%#\\\"'(){}@\0\x01\x0b\x0c\x1c\x7f\x80\x85\xa0\xff09aZ"
]


def head(draws: random.Random) -> bytes:
    """Draw the head of a request, mostly one that is wrong in one or two places."""
    found = draws.choice(_HEADS)
    for _ in range(draws.choice((0, 1, 1, 1, 2, 2, 3))):
        at = draws.randrange(len(found))
        if draws.random() < 0.4:
            lines = found.split(b"\r\n")
            lines.insert(draws.randint(1, max(1, len(lines) - 2)), draws.choice(_LINES))
            found = b"\r\n".join(lines)
        else:
            until = at + draws.choice((0, 0, 1, 1, 2, 7))
            found = found[:at] + draws.choice((b"", *_SIGNS)) + found[until:]
    return found


def read_by_h11(data: bytes) -> tuple[str, str, str, list[tuple[str, str]]] | None:
    """Return what h11 reads, if that is one request and nothing behind it but its body."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=65_536)
    connection.receive_data(data)
    try:
        found = connection.next_event()
        if not isinstance(found, h11.Request) or connection.trailing_data[0]:
            return None
    except h11.RemoteProtocolError:
        return None
    headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in found.headers]
    method, target = found.method.decode(), found.target.decode()
    return method, target, f"HTTP/{found.http_version.decode()}", headers


def _read_by_ours(request: Request) -> tuple[str, str, str, list[tuple[str, str]]]:
    target = request.path + ("?" + "&".join(request.query) if request.query else "")
    headers = [(name.lower(), value) for name, value in request.headers]
    return request.method, target, request.version, headers


def compare(draws: random.Random, number: int) -> tuple[int, list[bytes]]:
    """Return how many of random heads ours admits, and those that h11 reads otherwise."""
    admitted, wrong = 0, []
    for _ in range(number):
        data = head(draws)
        try:
            request = parse_request(data)
        except BadRequest:
            continue
        admitted += 1
        expected = _read_by_ours(request)
        passed_on = read_by_h11(request.forwarded(without_cookie="token"))
        # A question mark without a query isn't passed on.
        same = read_by_h11(data) in (expected, (expected[0], f"{expected[1]}?", *expected[2:]))
        if not same or passed_on is None or passed_on[:3] != expected[:3]:
            wrong.append(data)
    return admitted, wrong


@pytest.mark.parametrize(
    "number", [2_000, pytest.param(200_000, marks=pytest.mark.soak)], ids=["some", "many"]
)
def test_h11_reads_what_is_admitted_in_the_same_way(number: int) -> None:
    admitted, wrong = compare(drawn("heads of requests"), number)
    assert wrong == []
    assert number / 5 < admitted < number * 4 / 5
