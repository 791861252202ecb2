"""The instance metadata service of one host."""

from __future__ import annotations

import http.server
import threading


class Metadata:
    """IMDSv2 of one instance; what is named in `broken` answers with an error."""

    def __init__(self, facts: dict[str, str]) -> None:
        self.facts = facts
        self.broken: set[str] = set()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                ok = (
                    self.path == "/latest/api/token"
                    and self.headers["X-aws-ec2-metadata-token-ttl-seconds"]
                )
                self._answer(200 if ok else 400, "a-token")

            def do_GET(self) -> None:
                if self.headers["X-aws-ec2-metadata-token"] != "a-token":
                    return self._answer(401, "")
                name = self.path.removeprefix("/latest/meta-data/")
                if name in outer.broken:
                    return self._answer(503, "")
                value = outer.facts.get(name)
                return self._answer(200 if value is not None else 404, value or "")

            def _answer(self, status: int, text: str) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *args: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
