"""The caller's own address, for "me": asked of somebody who answers, or an error that says what to
do instead.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from terradask._aws.own_address import own_cidr
from terradask._dask.connectivity import needs_own_address, with_own_address
from terradask.errors import EndpointUnreachable, SettingsError
from terradask_stacks.loading import load_settings
from terradask_stacks.settings import ClusterSettings


class Answer(BaseHTTPRequestHandler):
    text = b""
    status = 200
    location = ""

    def do_GET(self) -> None:
        self.send_response(self.status)
        if self.location and self.path == "/":
            self.send_header("Location", self.location)
        self.end_headers()
        self.wfile.write(self.text)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def asked() -> Iterator[tuple[str, type[Answer]]]:
    """A service of this machine, and what it answers."""
    handler = type("Handler", (Answer,), {})
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", handler
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_address_becomes_a_block_of_its_own(asked: tuple[str, type[Answer]]) -> None:
    url, answer = asked
    answer.text = b"203.0.113.7\n"
    assert own_cidr(url) == "203.0.113.7/32"
    structure = {
        "max_workers": 3,
        "allow_ingress_from": "me",
        "allow_ssh_from": ["me", "198.51.100.0/24", "203.0.113.7/32"],
    }
    assert with_own_address(structure, url, ClusterSettings()) == {
        "max_workers": 3,
        "allow_ingress_from": ["203.0.113.7/32"],
        "allow_ssh_from": ["203.0.113.7/32", "198.51.100.0/24"],
    }


def test_ssh_alone_is_for_this_machine(asked: tuple[str, type[Answer]]) -> None:
    url, answer = asked
    answer.text = b"203.0.113.7\n"
    ssh = {"allow_ssh": True, "allow_ssh_from": ["203.0.113.7/32"]}
    assert with_own_address({"allow_ssh": True}, url, ClusterSettings()) == ssh
    both = {"allow_ssh": True, "allow_ingress_from": "me"}
    found = with_own_address(both, url, ClusterSettings())
    assert found == {**both, "allow_ingress_from": ["203.0.113.7/32"]}


def test_ssh_alone_is_for_the_declared_addresses() -> None:
    declared = ClusterSettings(allow_ssh=True, allow_ssh_from=["198.51.100.0/24"])
    found = with_own_address({"allow_ssh": True}, "http://127.0.0.1:9", declared)
    assert found == {"allow_ssh": True}


@pytest.mark.parametrize(
    ("text", "status", "problem"),
    [
        (b"2001:db8::7\n", 200, "is IPv6"),
        (b"<html>Log in to the hotel's network</html>", 200, "not an address"),
        (b"", 200, "not an address"),
        (b"\xff\xfe", 200, "not an address"),
        (b"203.0.113.7", 503, "doesn't answer"),
    ],
)
def test_answers_that_are_no_address(
    asked: tuple[str, type[Answer]], text: bytes, status: int, problem: str
) -> None:
    url, answer = asked
    answer.text, answer.status = text, status
    with pytest.raises(EndpointUnreachable, match=problem) as caught:
        own_cidr(url)
    assert "allow_ingress_from='203.0.113.7/32'" in str(caught.value)
    assert "connect='ssm'" in str(caught.value)


def test_a_redirect_is_not_followed(asked: tuple[str, type[Answer]]) -> None:
    url, answer = asked
    answer.text, answer.status, answer.location = b"203.0.113.7", 302, f"{url}/elsewhere"
    with pytest.raises(EndpointUnreachable, match="doesn't answer"):
        own_cidr(url)


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/hostname",
        "http://checkip.amazonaws.com",
        "http://10.0.0.1/",
        "http://127.0.0.1.example.org",
        "ftp://127.0.0.1/",
        "data:,203.0.113.7",
        "https://me:password@example.org",
        "https:///path",
        "https://[::1",
        "https://example.org/a b",
        "",
    ],
)
def test_another_url_than_one_of_https_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="own_address_url") as caught:
        load_settings(environ={}, overrides={"workspace": {"own_address_url": url}})
    assert "an https URL without credentials" in str(caught.value)


@pytest.mark.parametrize(
    "url",
    ["https://example.org/me", "http://127.64.0.9:80/x", "http://localhost:5", "http://[::1]:5/"],
)
def test_https_or_loopback_is_taken(url: str) -> None:
    loaded = load_settings(environ={}, overrides={"workspace": {"own_address_url": url}})
    assert loaded.settings.workspace.own_address_url == url


def test_nobody_answers() -> None:
    with pytest.raises(EndpointUnreachable, match="doesn't answer"):
        own_cidr("http://127.0.0.1:9")


@pytest.mark.parametrize(
    ("structure", "named"),
    [
        ({}, False),
        ({"allow_ingress_from": "me"}, True),
        ({"allow_ssh_from": ["me"]}, True),
        ({"allow_ssh": True}, True),
        ({"allow_ssh": True, "allow_ingress_from": ["203.0.113.7/32"]}, False),
        ({"allow_ssh": False}, False),
        ({"allow_ingress_from": ["203.0.113.7/32"]}, False),
    ],
)
def test_who_says_me(structure: dict[str, object], named: bool) -> None:
    assert needs_own_address(structure) is named
