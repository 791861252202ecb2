"""The HTTP server of the endpoint."""

from __future__ import annotations

import logging
import socket
import threading
from typing import Any

from terradask_simulator.aws.endpoint.answers import serving
from terradask_simulator.aws.endpoint.application import Application

__all__ = ["Endpoint"]

# Calls are let in one at a time; the threads are for questions that wait, and for bodies on their
# way.
_THREADS = 16
_CONNECTIONS = 1000
_IDLE_SECONDS = 120


def _patient_channel() -> Any:
    from waitress.channel import HTTPChannel

    class Channel(HTTPChannel):  # type: ignore[misc]  # waitress carries no types
        """Answers a request that asks whether to go on, and then has nothing to send: waitress
        would wait for it for ever.

        Names the connection that is served, as answers may be lost on the way.
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

    Waitress, not the server that moto brings: under load that one now and then lost an answer after
    the work was done, and the AWS SDKs, which then ask again, met a duplicate of their own making.
    """

    def __init__(self, server: socket.socket, application: Application) -> None:
        from waitress.server import create_server

        # Calls wait for one another by design.
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
        """Start to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Stop to answer, and close the socket."""
        self._server.close()
        self._server.task_dispatcher.shutdown()
        self._socket.close()
