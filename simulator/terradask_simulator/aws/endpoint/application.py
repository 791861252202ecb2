"""The WSGI application in front of moto's: counts calls, lets them in one at a time as throttle and
gate allow.
"""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qs

from terradask_simulator.aws.backend import STATE_LOCK
from terradask_simulator.aws.endpoint.admission import Admission
from terradask_simulator.aws.endpoint.calls import CallRecorder, identify
from terradask_simulator.aws.endpoint.lost_answers import LostAnswers, cut_connection
from terradask_simulator.aws.endpoint.paths import CONTROL_PREFIX, OWN_ADDRESS_PATH
from terradask_simulator.aws.endpoint.replays import Answer, Replays

__all__ = ["Application", "Control"]

_log = logging.getLogger(__name__)

#: A question of the simulator's own: method, what follows `CONTROL_PREFIX`, query and JSON body to
#: an answer as JSON.
Control = Callable[[str, str, dict[str, str], Any], Any]


class Application:
    """A WSGI application in front of moto's.

    ``control`` answers below `CONTROL_PREFIX`; None for an unknown path.
    """

    def __init__(
        self,
        recorder: CallRecorder,
        control: Control,
        admission: Admission,
        lost_answers: LostAnswers,
    ) -> None:
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

        self._moto = DomainDispatcherApplication(create_backend_app)
        self._recorder = recorder
        self._control = control
        self._admission = admission
        self._lost_answers = lost_answers
        self._replays = Replays()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer one request."""
        # The body is read before the lock is taken: a slow client must not hold up the others.
        body = _body(environ)
        path = environ.get("PATH_INFO", "/")
        if path.startswith(CONTROL_PREFIX) and "HTTP_AUTHORIZATION" not in environ:
            return self._answer(environ, path[len(CONTROL_PREFIX) :], body, start_response)
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
            refusal = None if call is None else self._admission.refusal(environ, body)
            if refusal is not None:
                length = ("Content-Length", str(len(refusal.body)))
                start_response(
                    refusal.status,
                    [("Content-Type", refusal.content_type), length, *refusal.headers],
                )
                return [refusal.body]
            said: list[tuple[str, Any]] = []
            result = self._moto(environ, _noting(call, start_response, said))
            try:
                content = b"".join(result)
                if call is not None and self._lost_answers.loss.takes(call.action):
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

    def _answer(
        self, environ: dict[str, Any], path: str, body: bytes, start_response: Any
    ) -> Iterable[bytes]:
        if environ["PATH_INFO"] == OWN_ADDRESS_PATH:
            text = f"{environ['REMOTE_ADDR']}\n".encode()
            start_response(
                "200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(text)))]
            )
            return [text]
        query = {
            name: values[0] for name, values in parse_qs(environ.get("QUERY_STRING", "")).items()
        }
        answer = self._control(
            environ["REQUEST_METHOD"], path, query, json.loads(body) if body else None
        )
        content = json.dumps(
            {"error": f"no such path: {path}"} if answer is None else answer
        ).encode()
        status = "404 Not Found" if answer is None else "200 OK"
        start_response(
            status, [("Content-Type", "application/json"), ("Content-Length", str(len(content)))]
        )
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
