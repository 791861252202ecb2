"""A package index on loopback, as PEP 503 describes it: static files."""

from __future__ import annotations

import base64
import hashlib
import threading
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def publish(
    root: Path,
    name: str,
    version: str,
    body: str = "",
    *,
    needs: Sequence[str] = (),
    tag: str = "py3-none-any",
    beside: bool = False,
) -> str:
    """Put a wheel with one module into the index, in place of earlier ones or beside them, and
    return its SHA-256, which the index tells too.
    """
    module = name.replace("-", "_")
    about = f"{module}-{version}.dist-info"
    wheel = root / "files" / f"{module}-{version}-{tag}.whl"
    wheel.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{module}.py", body)
        archive.writestr(
            f"{about}/METADATA",
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            + "".join(f"Requires-Dist: {need}\n" for need in needs),
        )
        archive.writestr(
            f"{about}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n"
        )
        archive.writestr(f"{about}/RECORD", "")
    return list_archive(root, name, wheel, beside=beside)


def list_archive(root: Path, name: str, archive: Path, *, beside: bool = False) -> str:
    """List a file as the package's one archive, or beside others, and return its SHA-256."""
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    page = root / "simple" / name / "index.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    others = page.read_text() if beside and page.exists() else "<!DOCTYPE html>"
    page.write_text(f'{others}<a href="/files/{archive.name}#sha256={digest}">{archive.name}</a>')
    return digest


@contextmanager
def serving(
    root: Path,
    asked: list[str] | None = None,
    *,
    user: str | None = None,
    denial: int = 401,
    address: str = "127.0.0.1",
) -> Iterator[str]:
    """Serve the index, and yield its URL; the paths that are asked for are put into the list. With
    a `user`, ``name:password``, it answers others with the denial.
    """
    allowed = None if user is None else f"Basic {base64.b64encode(user.encode()).decode()}"

    class Handler(_Quiet):
        def do_GET(self) -> None:
            if asked is not None:
                asked.append(self.path)
            if allowed is not None and self.headers.get("Authorization") != allowed:
                self.send_error(denial)
                return
            super().do_GET()

    server = ThreadingHTTPServer((address, 0), partial(Handler, directory=str(root)))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://{address}:{server.server_port}/simple"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
