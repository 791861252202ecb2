"""A way to AWS that can be as AWS is at its worst: silent, unavailable, refusing."""

from __future__ import annotations

import http.client
import http.server
import threading
from typing import Any
from urllib.parse import urlsplit

#: As S3 answers then: https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"

#: As AWS refuses what a role may not do.
DENIED = (
    b"<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>not authorized"
    b"</Message></Error></ErrorResponse>"
)

#: As S3 does: https://docs.aws.amazon.com/AmazonS3/latest/userguide/troubleshoot-403-errors.html
S3_DENIED = (
    b"<Error><Code>AccessDenied</Code><Message>User: arn:aws:sts::123456789012:assumed-role/r/i is "
    b"not authorized to perform: s3:PutObject with an explicit deny in a resource-based policy"
    b"</Message></Error>"
)

#: What is between two ends alone.
_OF_A_HOP = frozenset({"content-length", "transfer-encoding", "connection"})


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def _pass_on(self) -> None:
        way, target = self.server.way, self.server.target
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if way.cut or way.answer is not None:
            way.refused += 1
        if way.cut:
            self.close_connection = True
        elif way.answer is not None:
            self._reply(*way.answer, {})
        else:
            there = http.client.HTTPConnection(target, timeout=60)
            there.request(self.command, self.path, body, dict(self.headers))
            response = there.getresponse()
            self._reply(response.status, response.read(), dict(response.getheaders()))
            there.close()

    def _reply(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in headers.items():
            if key.lower() not in _OF_A_HOP:
                self.send_header(key, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def do_GET(self) -> None:
        self._pass_on()

    def do_HEAD(self) -> None:
        self._pass_on()

    def do_PUT(self) -> None:
        self._pass_on()

    def do_POST(self) -> None:
        self._pass_on()

    def do_DELETE(self) -> None:
        self._pass_on()

    def log_message(self, *_: Any) -> None:
        pass


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, way: Endpoint, target: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.way, self.target = way, target


class Endpoint:
    """Passes calls on to AWS, unless it is cut or has an answer of its own."""

    def __init__(self, target: str) -> None:
        #: What every call is answered with; None: with what AWS says.
        self.answer: tuple[int, bytes] | None = None
        self.cut = False
        #: How many calls were not passed on.
        self.refused = 0
        self._server = _Server(self, urlsplit(target).netloc)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
