"""Gives a run's secrets to the host's own processes, through a socket that only its user can open.

So they are in no file, no command line, and no environment that a process starts with: `/proc`
shows that one.
"""

from __future__ import annotations

import contextlib
import json
import socketserver
import threading
from collections.abc import Callable
from pathlib import Path

from terradask_host.agent.referenced_secrets import ReferencedSecrets
from terradask_host.errors import SecretUnreadable
from terradask_host.preload.referenced_secrets import address_of

#: What a process asks: before it runs anything, when it gets nothing else to run without them; and
#: again, for a command that it starts.
AT_START = b"start\n"


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Log nothing about closed connections."""


class SecretSocket:
    """Answers each connection with the current values, on threads.

    Parameters
    ----------
    fail
        Is called when a process would start without them.
    """

    def __init__(
        self, path: Path, secrets: ReferencedSecrets, fail: Callable[[SecretUnreadable], None]
    ) -> None:
        self._path = path
        path.unlink(missing_ok=True)

        class Handler(socketserver.StreamRequestHandler):
            timeout = 10.0

            def handle(self) -> None:
                asked = self.rfile.readline(64)
                try:
                    answer: dict[str, object] = {"environ": dict(secrets.read())}
                except SecretUnreadable as error:
                    if asked == AT_START:
                        fail(error)
                    answer = {"problem": str(error)}
                with contextlib.suppress(OSError):
                    self.wfile.write(json.dumps(answer).encode())

        with address_of(str(path)) as address:
            self._server = _Server(address, Handler)
        path.chmod(0o600)
        threading.Thread(target=self._server.serve_forever, name="secrets", daemon=True).start()

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
        self._path.unlink(missing_ok=True)
