"""A package index on loopback, as PEP 503 describes it: static files."""

from __future__ import annotations

import hashlib
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def publish(root: Path, name: str, version: str, body: str = "") -> str:
    """Put a wheel with one module into the index, in place of an earlier one, and return its
    SHA-256, which the index tells too.
    """
    module = name.replace("-", "_")
    about = f"{module}-{version}.dist-info"
    wheel = root / "files" / f"{module}-{version}-py3-none-any.whl"
    wheel.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{module}.py", body)
        archive.writestr(
            f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        archive.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{about}/RECORD", "")
    return list_archive(root, name, wheel)


def list_archive(root: Path, name: str, archive: Path) -> str:
    """List a file as the package's one archive, and return its SHA-256."""
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    page = root / "simple" / name / "index.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(
        f'<!DOCTYPE html><a href="/files/{archive.name}#sha256={digest}">{archive.name}</a>'
    )
    return digest


@contextmanager
def serving(root: Path) -> Iterator[str]:
    """Serve the index, and yield its URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(root)))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/simple"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
