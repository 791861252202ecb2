"""Serve AWS credentials to the SDKs of one process and its children, as ECS and EKS do.

Variables such as ``AWS_ACCESS_KEY_ID`` are read only once.

AWS (documented): AWS's SDKs read credentials from AWS_CONTAINER_CREDENTIALS_FULL_URI, and again
before they expire.
https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html
"""

from __future__ import annotations

import datetime
import functools
import json
import os
import secrets
import socketserver
import threading
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

_PATH = "/credentials"

_LAPSED = (
    "the AWS credentials that a Cluster object sent here expired at {at}, and it no longer sends "
    "new ones: it is closed, or its machine "
    "sleeps. Attach again: Cluster.from_name(..., credentials='local'), or call "
    "cluster.send_credentials()"
)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing about closed connections."""


class CredentialsEndpoint:
    """Answers requests with its token on loopback, on a thread, with credentials from memory."""

    def __init__(self) -> None:
        self._token = secrets.token_urlsafe(32)
        self._credentials: dict[str, str] = {}
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self._token_file = _in_memory(self._token)
        threading.Thread(
            target=self._server.serve_forever, name="aws-credentials", daemon=True
        ).start()

    @property
    def variables(self) -> dict[str, str]:
        """The variables that point SDKs here.

        Most accept the token from either; Rust's ``object_store`` (polars, deltalake, obstore)
        needs the file, if there can be one.
        """
        found = {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"http://127.0.0.1:{self._server.server_address[1]}{_PATH}",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN": self._token,
        }
        if self._token_file is not None:
            found["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = self._token_file
        return found

    def hold(self, credentials: Mapping[str, str]) -> None:
        """Serve these credentials from now on.

        They have ``AccessKeyId``, ``SecretAccessKey``, ``Token`` and ``Expiration``.
        """
        self._credentials = dict(credentials)

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, token: str) -> tuple[HTTPStatus, dict[str, str]]:
        """Return the answer to a request for `path` with `token`."""
        if not secrets.compare_digest(token.encode(), self._token.encode()):
            return HTTPStatus.FORBIDDEN, _error(
                "AccessDenied", "this is not the token of AWS_CONTAINER_AUTHORIZATION_TOKEN"
            )
        if path != _PATH:
            return HTTPStatus.NOT_FOUND, _error("NotFound", f"there is only {_PATH}")
        held = self._credentials
        if _expired(held["Expiration"]):
            return HTTPStatus.BAD_REQUEST, _error(
                "ExpiredToken", _LAPSED.format(at=held["Expiration"])
            )
        return HTTPStatus.OK, held

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 10

            def do_GET(self) -> None:
                status, document = endpoint.answer(self.path, self.headers.get("Authorization", ""))
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Log nothing: SDKs may send many requests."""

        return Handler


def _error(code: str, message: str) -> dict[str, str]:
    return {"code": code, "message": message}


def _expired(at: str) -> bool:
    return datetime.datetime.fromisoformat(at) <= datetime.datetime.now(datetime.UTC)


def _in_memory(text: str) -> str | None:
    """Return the path of a file in this process's memory; None if the system has no such files."""
    create = getattr(os, "memfd_create", None)
    if create is None:
        return None
    descriptor = create("aws-token")
    os.write(descriptor, text.encode())
    # It stays open while this process lives, also for its children.
    return f"/proc/{os.getpid()}/fd/{descriptor}"


# ---- credentials of a process --------------------------------------------------------------------


#: The scheduler's operation that returns all secrets that its clients have sent.
FETCH_OPERATION = "terradask_confided"


#: Names of the variables that clients have sent to this process.
SENT: set[str] = set()


def take(environ: Mapping[str, str], credentials: Mapping[str, str] | None) -> None:
    """Set private variables in this process, and credentials in its `CredentialsEndpoint`.

    Variables are set at run time: those at a process's start are readable by others, in ``/proc``.
    Its children inherit them.
    """
    SENT.update(environ)
    os.environ.update(environ)
    if credentials is not None:
        endpoint = own_endpoint()
        endpoint.hold(credentials)
        os.environ.update(endpoint.variables)


@functools.cache
def own_endpoint() -> CredentialsEndpoint:
    """Return this process's endpoint, opened at first use; workers without a nanny share one."""
    return CredentialsEndpoint()
