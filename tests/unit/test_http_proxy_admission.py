"""Who gets in to the dashboard, by table."""

import dataclasses

import pytest

from terradask_host.http_proxy.admission import LOOPBACK, Admission
from terradask_host.http_proxy.request import BadRequest, parse_request
from terradask_host.http_proxy.server import with_token, without_token

HERE = Admission(secure=False, hosts=LOOPBACK)
SHARED = Admission(secure=True, hosts=None)
COOKIE = f"Cookie: {HERE.cookie}={HERE.token}"


def head(*headers, method="GET", target="/status", host="127.0.0.1:4711"):
    return "\r\n".join([f"{method} {target} HTTP/1.1", f"Host: {host}", *headers, "", ""]).encode(
        "latin-1"
    )


def judged(*headers, door=HERE, **line):
    answer = door.judge(parse_request(head(*headers, **line)))
    return None if answer is None else answer.decode()


@pytest.mark.parametrize(
    ("headers", "line"),
    [
        ([COOKIE], {}),
        ([f"Cookie: a=b; {HERE.cookie}={HERE.token}; c=d"], {}),
        ([f"Cookie: {HERE.cookie}=of-another-path; {HERE.cookie}={HERE.token}"], {}),
        ([COOKIE], {"host": "LOCALHOST:4711"}),
        ([COOKIE], {"host": "[::1]:4711"}),
        ([COOKIE, "Origin: http://127.0.0.1:4711"], {"method": "POST"}),
        (
            [COOKIE, "Connection: Upgrade", "Upgrade: websocket", "Origin: http://127.0.0.1:4711"],
            {"target": "/status/ws"},
        ),
    ],
)
def test_the_cookie_opens(headers, line):
    assert judged(*headers, **line) is None


@pytest.mark.parametrize(
    ("headers", "line", "why"),
    [
        ([], {}, "needs a link with its token"),
        ([f"Cookie: {HERE.cookie}={HERE.token[:-1]}"], {}, "needs a link with its token"),
        ([f"Cookie: {HERE.cookie}=é"], {}, "needs a link with its token"),
        ([f"Cookie: {SHARED.cookie}={HERE.token}"], {}, "needs a link with its token"),
        ([f"Authorization: Bearer {HERE.token}"], {}, "needs a link with its token"),
        ([COOKIE], {"host": "evil.example:4711"}, "not served under this name"),
        ([COOKIE], {"host": "127.0.0.1.evil.example"}, "not served under this name"),
        ([COOKIE, "Origin: http://evil.example"], {}, "another origin"),
        ([COOKIE, "Origin: http://127.0.0.1:4712"], {}, "another origin"),
        ([COOKIE, "Origin: null"], {"method": "POST"}, "another origin"),
        (
            [COOKIE, "Origin: http://127.0.0.1:4711", "Origin: http://evil.example"],
            {},
            "another origin",
        ),
        ([COOKIE], {"target": "/status?terradask-token=wrong"}, "not valid for this dashboard"),
        ([COOKIE], {"target": "/status?terradask-token="}, "not valid for this dashboard"),
        (
            [],
            {"target": f"/status?terradask-token={HERE.token}", "method": "POST"},
            "not valid for this dashboard",
        ),
        ([], {"target": f"/status?token={HERE.token}"}, "needs a link with its token"),
    ],
)
def test_everything_else_is_refused_with_the_reason(headers, line, why):
    answer = judged(*headers, **line)
    assert answer.startswith("HTTP/1.1 403 ")
    assert why in answer
    assert HERE.token not in answer
    assert "Set-Cookie" not in answer


def test_a_link_hands_out_the_cookie_and_leads_to_the_page_without_the_token():
    answer = judged(target=f"/info/main/workers.html?a=1&terradask-token={HERE.token}&b=<")
    assert answer.startswith("HTTP/1.1 200 ")
    assert f"Set-Cookie: {HERE.cookie}={HERE.token}; HttpOnly; SameSite=Strict\r\n" in answer
    assert 'content="0; url=./workers.html?a=1&amp;b=&lt;"' in answer
    assert {"Referrer-Policy: no-referrer", "Cache-Control: no-store"} <= set(answer.split("\r\n"))
    assert HERE.token not in answer.partition("\r\n\r\n")[2]


@pytest.mark.parametrize(
    "path", ["//evil.example", "/a/\\evil.example", "/x/javascript:alert(1)", "/"]
)
def test_a_link_leads_nowhere_else(path):
    answer = judged(target=f"{path}?terradask-token={HERE.token}")
    assert f'url=./{path.rpartition("/")[2]}"' in answer


def test_links_keep_what_a_proxy_needs():
    assert (
        HERE.link("http://127.0.0.1:1/status")
        == f"http://127.0.0.1:1/status?terradask-token={HERE.token}"
    )
    assert (
        HERE.link("/user/a/proxy/1/status?x=1")
        == f"/user/a/proxy/1/status?x=1&terradask-token={HERE.token}"
    )


def in_path(target, *headers, **line):
    door = dataclasses.replace(HERE, in_path=True)
    return judged(*headers, door=door, target=target, **line)


def test_a_token_in_the_path_opens_alone():
    assert in_path(f"/{HERE.token}/status") is None
    assert in_path(f"/{HERE.token}") is None
    assert in_path(f"/{HERE.token}/a/ws", "Origin: http://127.0.0.1:4711") is None
    for target in (
        "/status",
        f"/{HERE.token[:-1]}/status",
        f"/status/{HERE.token}",
        f"//{HERE.token}/status",
        f"/status?terradask-token={HERE.token}",
    ):
        assert "needs a link with its token" in in_path(target)
        assert "needs a link with its token" in in_path(target, COOKIE)
    assert "another origin" in in_path(f"/{HERE.token}/status", "Origin: http://evil.example")
    assert "not served under" in in_path(f"/{HERE.token}/status", host="evil.example")
    # Nor does it open where it belongs into a link and a cookie.
    assert "needs a link with its token" in judged(target=f"/{HERE.token}/status")


def test_links_with_the_token_in_their_path_are_short():
    door = dataclasses.replace(HERE, in_path=True)
    assert door.link("http://127.0.0.1:1/status") == f"http://127.0.0.1:1/{HERE.token}/status"
    assert door.link("/user/a/proxy/1/status?x=1") == f"/user/a/proxy/1/{HERE.token}/status?x=1"
    assert door.link("/proxy/1/") == f"/proxy/1/{HERE.token}/"
    # 128 bits in base64.
    assert len(HERE.token) == 22
    request = parse_request(head(target=f"/{HERE.token}/status"))
    assert HERE.token not in repr(request)


@pytest.mark.parametrize(
    ("target", "inner", "location", "shown"),
    [
        ("/t", "/", b"/status", b"./status"),
        ("/t/", "/", b"/status", b"./status"),
        ("/t/info/main/a.html?x", "/info/main/a.html", b"/status", b"../../status"),
        ("/t/a", "/a", b"//evil.example/", b"//evil.example/"),
        ("/t/a", "/a", b"https://example.com/", b"https://example.com/"),
    ],
)
def test_what_is_behind_never_sees_the_token_and_leads_back_below_it(
    target, inner, location, shown
):
    request = without_token(parse_request(head(target=target)))
    assert request.path == inner
    answer = b"HTTP/1.1 302 Found\r\nLocation: " + location + b"\r\nReferrer-Policy: origin\r\n\r\n"
    changed = with_token(answer, request)
    assert b"\r\nLocation: " + shown + b"\r\n" in changed
    assert changed.lower().count(b"referrer-policy") == 1
    assert changed.endswith(b"\r\nReferrer-Policy: no-referrer\r\n\r\n")


def test_behind_a_proxy_any_name_is_served_and_the_cookie_is_asked_for():
    door = dataclasses.replace(HERE, hosts=None)
    assert judged(COOKIE, "Origin: https://hub.example", door=door, host="hub.example") is None
    assert "needs a link with its token" in judged(door=door, host="hub.example")


def test_a_shared_door_speaks_tls_alone():
    cookie = f"Cookie: {SHARED.cookie}={SHARED.token}"
    assert judged(cookie, "Origin: https://3.1.2.3:8788", door=SHARED, host="3.1.2.3:8788") is None
    assert "another origin" in judged(
        cookie, "Origin: http://3.1.2.3:8788", door=SHARED, host="3.1.2.3:8788"
    )
    assert "; Secure\r\n" in judged(door=SHARED, target=f"/status?terradask-token={SHARED.token}")


def test_doors_differ_and_show_no_token():
    other = Admission(secure=False, hosts=None)
    assert len({HERE.token, SHARED.token, other.token}) == 3
    assert HERE.cookie != other.cookie
    request = parse_request(head(COOKIE, target=f"/status?terradask-token={HERE.token}"))
    assert HERE.token not in repr(HERE) + repr(request)


def test_the_dashboard_never_sees_the_cookie_and_gets_one_request_a_connection():
    request = parse_request(
        head(
            f"Cookie: a=b; {HERE.cookie}={HERE.token}; c=d",
            "Connection: keep-alive",
            "X: é",
            target="/s?a=1&b",
        )
    )
    assert request.forwarded(without_cookie=HERE.cookie) == (
        (
            "GET /s?a=1&b HTTP/1.1\r\nHost: 127.0.0.1:4711\r\nCookie: a=b; c=d\r\nX: "
            "é\r\nConnection: "
            "close\r\n\r\n"
        ).encode("latin-1")
    )
    socket = parse_request(head(COOKIE, "Connection: keep-alive, Upgrade", "Upgrade: websocket"))
    assert socket.is_upgrade
    assert socket.forwarded(without_cookie=HERE.cookie) == (
        b"GET /status HTTP/1.1\r\nHost: 127.0.0.1:4711\r\nConnection: keep-alive, "
        b"Upgrade\r\nUpgrade: websocket\r\n\r\n"
    )


@pytest.mark.parametrize(
    "bad",
    [
        b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a",
        b"GET http://127.0.0.1/ HTTP/1.1\r\nHost: a\r\n\r\n",
        b"CONNECT evil:1 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/2.0\r\nHost: a\r\n\r\n",
        b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\nHost: a\r\n\r\n",
        head("Host: b"),
        head(host="a b"),
        head(host="user@127.0.0.1"),
        head(host=""),
        head(" folded: x"),
        head("Space : x"),
        head("X: a\rCookie: b"),
        head("X: a\nCookie: b"),
        head("Transfer-Encoding: chunked"),
        head("Content-Length: 1", "Content-Length: 1"),
        head("Content-Length: +1"),
        head("Content-Length: 1, 1"),
    ],
)
def test_what_can_be_read_two_ways_is_not_read(bad):
    with pytest.raises(BadRequest):
        parse_request(bad)
