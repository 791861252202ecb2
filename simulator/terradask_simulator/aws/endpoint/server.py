"""The endpoint's door: counts every call, lets them in one at a time, as throttle and gate allow; answers the simulator's own questions."""

from __future__ import annotations

import io
import json
import logging
import socket
import threading
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qs

from terradask_simulator.aws.backend import STATE_LOCK
from terradask_simulator.aws.endpoint.calls import CallRecorder, identify
from terradask_simulator.aws.endpoint.lost_answers import Drops, cut_connection, serving
from terradask_simulator.aws.endpoint.replays import Answer, Replays
from terradask_simulator.aws.endpoint.signatures import Signatures
from terradask_simulator.aws.fidelity.throttling import Throttle
from terradask_simulator.aws.iam.gate import Gate
from terradask_simulator.aws.iam.operation import read_operation
from terradask_simulator.aws.iam.refusals import Refusal
from terradask_simulator.environment import OWN_ADDRESS_PATH
from terradask_simulator.errors import PortTaken

__all__ = ["Door", "Endpoint", "bind"]

_log = logging.getLogger(__name__)
_PREFIX = "/terradask-sim/"

# Calls are let in one at a time; the threads are for questions that wait, and for bodies on their way.
_THREADS = 16
_CONNECTIONS = 1000
_IDLE_SECONDS = 120

#: A question of the simulator's own: what follows the prefix, the query and the JSON body; the answer is JSON.
Control = Callable[[str, str, dict[str, str], Any], Any]


class Door:
    """A WSGI application in front of moto's.

    Parameters
    ----------
    application
        moto's application.
    recorder
        What counts the calls.
    control
        What answers below ``/terradask-sim/``: method, path, query and body to an answer; None for an unknown path.
    gate
        What judges calls by IAM policies; None to let every call in.
    throttle
        What refuses calls that are too many; None to let every call in.
    drops
        What lets answers get lost; None to lose none.
    signatures
        What refuses calls for their signature; None to refuse none.
    """

    def __init__(
        self,
        application: Any,
        recorder: CallRecorder,
        control: Control,
        gate: Gate | None = None,
        throttle: Throttle | None = None,
        *,
        drops: Drops | None = None,
        signatures: Signatures | None = None,
    ) -> None:
        self._application = application
        self._recorder = recorder
        self._control = control
        self._gate = gate
        self._throttle = Throttle() if throttle is None else throttle
        self._drops = Drops() if drops is None else drops
        self._signatures = Signatures() if signatures is None else signatures
        self._replays = Replays()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer one request."""
        # The body is read before the lock is taken: a slow client must not hold up the others.
        body = _body(environ)
        path = environ.get("PATH_INFO", "/")
        if path.startswith(_PREFIX) and "HTTP_AUTHORIZATION" not in environ:
            return self._answer(environ, path[len(_PREFIX) :], body, start_response)
        # moto reads keys with escapes from here.
        environ.setdefault("RAW_URI", environ.get("REQUEST_URI", path))
        call = identify(environ, body)
        if call is not None:
            self._recorder.record(call)
        with STATE_LOCK:
            missed = self._replays.missed(environ)
            if missed is not None:
                start_response(missed.status, list(missed.headers))
                return [missed.body]
            refusal = None if call is None else self._refusal(environ, body)
            if refusal is not None:
                length = ("Content-Length", str(len(refusal.body)))
                start_response(refusal.status, [("Content-Type", refusal.content_type), length, *refusal.headers])
                return [refusal.body]
            said: list[tuple[str, Any]] = []
            result = self._application(environ, _noting(call, start_response, said))
            try:
                content = b"".join(result)
                if call is not None and self._drops.loss.takes(call.action):
                    _log.info("the answer gets lost: %s", call.action)
                    cut_connection()
                    return [content]
                status, headers = said[-1]
                self._replays.note(environ, Answer(status, tuple(headers), content))
                return [content]
            finally:
                close = getattr(result, "close", None)
                if close is not None:
                    close()

    def _refusal(self, environ: dict[str, Any], body: bytes) -> Refusal | None:
        if self._signatures.expired or self._signatures.ahead_seconds:
            refusal = self._signatures.check(read_operation(environ, body))
            if refusal is not None:
                return refusal
        if self._throttle.factor:
            refusal = self._throttle.check(read_operation(environ, body))
            if refusal is not None:
                return refusal
        return None if self._gate is None else self._gate.check(environ, body)

    def _answer(self, environ: dict[str, Any], path: str, body: bytes, start_response: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"] == OWN_ADDRESS_PATH:
            text = f"{environ['REMOTE_ADDR']}\n".encode()
            start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(text)))])
            return [text]
        query = {name: values[0] for name, values in parse_qs(environ.get("QUERY_STRING", "")).items()}
        answer = self._control(environ["REQUEST_METHOD"], path, query, json.loads(body) if body else None)
        content = json.dumps({"error": f"no such path: {path}"} if answer is None else answer).encode()
        status = "404 Not Found" if answer is None else "200 OK"
        start_response(status, [("Content-Type", "application/json"), ("Content-Length", str(len(content)))])
        return [content]


def _noting(call: Any, start_response: Any, said: list[tuple[str, Any]]) -> Any:
    def start(status: str, headers: Any, exc_info: Any = None) -> Any:
        said.append((status, headers))
        if status >= "500":
            _log.error("%s: %s", call, status)
        return start_response(status, headers, exc_info)

    return start


def _body(environ: dict[str, Any]) -> bytes:
    stream, length = environ["wsgi.input"], environ.get("CONTENT_LENGTH")
    if length:
        body: bytes = stream.read(int(length))
    elif environ.get("wsgi.input_terminated"):
        body = stream.read()
        environ["CONTENT_LENGTH"] = str(len(body))
        environ.pop("HTTP_TRANSFER_ENCODING", None)
    else:
        body = b""
    environ["wsgi.input"] = io.BytesIO(body)
    return body


def bind(port: int) -> socket.socket:
    """Return a socket bound to a port of the loopback address.

    Parameters
    ----------
    port
        The port; 0 for any free one.

    Raises
    ------
    PortTaken
        Another program listens there.
    """
    server = socket.socket()
    try:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", port))
        server.listen(512)
    except OSError as error:
        server.close()
        raise PortTaken(port) from error
    return server


def _patient_channel() -> Any:
    from waitress.channel import HTTPChannel

    class Channel(HTTPChannel):  # type: ignore[misc]  # waitress carries no types
        """Answers a request that asks whether to go on, and then has nothing to send: waitress would wait for it for ever.

        Says whose connection is served, as answers may be lost on the way.
        """

        def send_continue(self) -> None:
            super().send_continue()
            if not self.request.chunked and not self.request.content_length:
                self.request.completed = True

        def service(self) -> None:
            serving(self)
            super().service()

    return Channel


class Endpoint:
    """The HTTP server in front of moto, in threads of its own.

    Waitress, not the server that moto brings: under load that one now and then lost an answer after the work was done, and the AWS
    SDKs, which then ask again, met a duplicate of their own making.

    Parameters
    ----------
    server
        The bound socket.
    recorder, control, gate, throttle, drops, signatures
        See `Door`.
    """

    def __init__(
        self,
        server: socket.socket,
        recorder: CallRecorder,
        control: Control,
        gate: Gate | None = None,
        throttle: Throttle | None = None,
        *,
        drops: Drops | None = None,
        signatures: Signatures | None = None,
    ) -> None:
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
        from waitress.server import create_server

        # Calls wait for one another by design.
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)
        self._server = create_server(
            Door(DomainDispatcherApplication(create_backend_app), recorder, control, gate, throttle, drops=drops, signatures=signatures),
            sockets=[server],
            threads=_THREADS,
            connection_limit=_CONNECTIONS,
            channel_timeout=_IDLE_SECONDS,
            clear_untrusted_proxy_headers=True,
        )
        self._server.channel_class = _patient_channel()
        self._socket = server
        self._thread = threading.Thread(target=self._server.run, name="endpoint", daemon=True)

    def start(self) -> None:
        """Start to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Stop to answer, and close the socket."""
        self._server.close()
        self._server.task_dispatcher.shutdown()
        self._socket.close()
