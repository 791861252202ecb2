"""The WSGI application in front of moto's, which counts calls and admits them one at a time through
throttle and gate; and its HTTP server.
"""

from __future__ import annotations

import io
import json
import logging
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import parse_qs

from terradask_simulator.aws.backend import STATE_LOCK
from terradask_simulator.aws.endpoint import CONTROL_PREFIX, CONTROL_SERVICE, OWN_ADDRESS_PATH
from terradask_simulator.aws.endpoint.answers import (
    Answer,
    LostAnswers,
    Replays,
    cut_connection,
    serving,
    with_later_values,
)
from terradask_simulator.aws.endpoint.calls import Call, CallRecorder, identify
from terradask_simulator.aws.endpoint.signatures import Signatures
from terradask_simulator.aws.fidelity.assumed_roles import check_role
from terradask_simulator.aws.fidelity.buckets import check_owner
from terradask_simulator.aws.fidelity.launch_limits import plan_state
from terradask_simulator.aws.fidelity.not_yet import check_not_yet, note_served
from terradask_simulator.aws.fidelity.pricing import price_answer
from terradask_simulator.aws.fidelity.throttling import Throttle
from terradask_simulator.aws.iam.gate import Gate
from terradask_simulator.aws.iam.operation import Operation, read_operation
from terradask_simulator.aws.iam.refusals import Refusal
from terradask_simulator.aws.shapes.check import ShapeCheck

__all__ = ["Application", "Control", "Endpoint"]

_log = logging.getLogger(__name__)

# Calls are served one at a time; other threads wait, or read request bodies.
_THREADS = 16
_CONNECTIONS = 1000
_IDLE_SECONDS = 120

#: A handler of the control API: method, path below `CONTROL_PREFIX`, query and JSON body to a JSON
#: response.
Control = Callable[[str, str, dict[str, str], Any], Any]


class Application:
    """A WSGI application in front of moto's.

    ``control`` answers below `CONTROL_PREFIX`; None for an unknown path. Without a gate, policies
    are not evaluated.
    """

    def __init__(
        self,
        port: int,
        *,
        recorder: CallRecorder,
        control: Control,
        signatures: Signatures,
        throttle: Throttle,
        lost_answers: LostAnswers,
        gate: Gate | None,
    ) -> None:
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

        self._moto = DomainDispatcherApplication(create_backend_app)
        self._hosts = (f"127.0.0.1:{port}", f"localhost:{port}")
        self._recorder = recorder
        self._control = control
        self._signatures = signatures
        self._throttle = throttle
        self._lost_answers = lost_answers
        self._gate = gate
        self._shapes = ShapeCheck.of_environment()
        self._replays = Replays()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer one request."""
        # Read the body before taking the lock: a slow client must not block others.
        body = _body(environ)
        operation = read_operation(environ, body)
        answer = self._own(environ, operation, body)
        if answer is None:
            answer = self._aws(environ, operation)
            if self._shapes is not None:
                self._shapes.check(operation, answer)
        start_response(answer.status, list(answer.headers))
        return [answer.body]

    def _own(self, environ: dict[str, Any], operation: Operation, body: bytes) -> Answer | None:
        """Answer requests that aren't for AWS; return None for others."""
        path = environ.get("PATH_INFO", "/")
        problem = self._foreign(environ)
        if problem:
            _log.warning("refused: %s", problem)
            return _text("403 Forbidden", problem)
        if path == OWN_ADDRESS_PATH:
            return _text("200 OK", environ["REMOTE_ADDR"])
        refusal = self._signatures.check(operation, environ, body)
        if refusal is not None:
            _log.warning("refused: %s %r: %s", operation.method, operation.path, refusal.code)
            return _refused(refusal)
        controls = operation.service == CONTROL_SERVICE
        if not controls and not path.startswith(CONTROL_PREFIX):
            return None
        if not controls or not self._signatures.is_owner(operation):
            return _text("403 Forbidden", "only the key of the embedded AWS's owner is taken here")
        return self._controlled(environ, path[len(CONTROL_PREFIX) :], body)

    def _foreign(self, environ: Mapping[str, Any]) -> str:
        """Return why a request isn't from a local program, or an empty string.

        Browsers send the page's ``Origin`` in requests that change something or whose response the
        page reads. A page whose name resolves to this machine (DNS rebinding) sends that name as
        ``Host``.
        """
        if "HTTP_ORIGIN" in environ:
            return "requests of web pages are refused"
        if environ.get("HTTP_HOST", "").lower() not in self._hosts:
            return f"the Host is none of {', '.join(self._hosts)}"
        return ""

    def _refusal(self, operation: Operation) -> Refusal | None:
        """Return why a call is refused, or None; call it with the state's lock held."""
        refusal = self._throttle.check(operation) or check_owner(operation)
        if refusal is None and self._gate is not None:
            refusal = self._gate.check(operation)
        return refusal or check_role(operation) or check_not_yet(operation)

    def _controlled(self, environ: dict[str, Any], path: str, body: bytes) -> Answer:
        query = {
            name: values[0] for name, values in parse_qs(environ.get("QUERY_STRING", "")).items()
        }
        answer = self._control(
            environ["REQUEST_METHOD"], path, query, json.loads(body) if body else None
        )
        content = json.dumps({"error": f"no such path: {path}"} if answer is None else answer)
        status = "404 Not Found" if answer is None else "200 OK"
        return _answer(status, "application/json", content.encode())

    def _aws(self, environ: dict[str, Any], operation: Operation) -> Answer:
        # moto reads escaped keys from this variable.
        environ.setdefault("RAW_URI", environ.get("REQUEST_URI", environ.get("PATH_INFO", "/")))
        call = identify(operation)
        if call is None:
            return _text("404 Not Found", "AWS has no such path")
        self._recorder.record(call)
        with STATE_LOCK:
            missed = self._replays.missed(environ)
            if missed is not None:
                return missed
            refusal = self._refusal(operation)
            if refusal is not None:
                return _refused(refusal)
            if call.action == "freetier:GetAccountPlanState":
                answer = self._json(200, plan_state(), "1.0")
            elif operation.service == "pricing":
                answer = self._json(*price_answer(operation.name, operation.parameters), "1.1")
            else:
                answer = self._by_moto(environ, call)
            note_served(operation, answer.status, answer.body)
            answer = with_later_values(call.action, answer)
            if self._lost_answers.takes(call.action):
                _log.info("the answer gets lost: %s", call.action)
                cut_connection()
            else:
                self._replays.note(environ, answer)
            return answer

    def _json(self, code: int, content: Any, version: str) -> Answer:
        """Return the answer of a service that moto lacks."""
        status = "200 OK" if code == 200 else "400 Bad Request"
        kind, body = f"application/x-amz-json-{version}", json.dumps(content).encode()
        return _answer(status, kind, body, *self._signatures.date_header())

    def _by_moto(self, environ: dict[str, Any], call: Call) -> Answer:
        responses: list[tuple[str, Any]] = []

        def start(status: str, headers: Any, _exc_info: Any = None) -> None:
            responses.append((status, headers))
            if status >= "500":
                _log.error("%s: %s", call, status)

        result = self._moto(environ, start)
        try:
            content = b"".join(result)
        finally:
            close = getattr(result, "close", None)
            if close is not None:
                close()
        status, headers = responses[-1]
        return Answer(status, (*headers, *self._signatures.date_header()), content)


class Endpoint:
    """The HTTP server in front of moto, in threads of its own.

    Waitress, not moto's own server: under load that one sometimes loses the response to a served
    call, and the AWS SDKs' retry then fails as a duplicate.
    """

    def __init__(self, server: socket.socket, application: Application) -> None:
        from waitress.server import create_server

        # Calls wait for each other by design.
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)
        self._server = create_server(
            application,
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
        """Start serving."""
        self._thread.start()

    def stop(self) -> None:
        """Stop serving, and close the socket."""
        self._server.close()
        self._server.task_dispatcher.shutdown()
        self._socket.close()


def _patient_channel() -> Any:
    from waitress.channel import HTTPChannel

    class Channel(HTTPChannel):  # type: ignore[misc]  # waitress carries no types
        """Serves requests with ``Expect: 100-continue`` and no body, for which waitress would wait
        forever.

        Also stores the served connection, since its response may be cut off on demand.
        """

        def send_continue(self) -> None:
            super().send_continue()
            if not self.request.chunked and not self.request.content_length:
                self.request.completed = True

        def service(self) -> None:
            serving(self)
            super().service()

    return Channel


def _answer(status: str, kind: str, body: bytes, *more: tuple[str, str]) -> Answer:
    headers = (("Content-Type", kind), ("Content-Length", str(len(body))), *more)
    return Answer(status, headers, body)


def _text(status: str, text: str) -> Answer:
    return _answer(status, "text/plain", f"{text}\n".encode())


def _refused(refusal: Refusal) -> Answer:
    return _answer(refusal.status, refusal.content_type, refusal.body, *refusal.headers)


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
