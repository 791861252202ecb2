"""A package index on loopback, as PEP 503 describes it: static files."""

from __future__ import annotations

import base64
import hashlib
import io
import sys
import tarfile
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


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a client that has read what it wanted."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


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


def publish_source(root: Path, name: str, version: str, backend: str) -> str:
    """Put a source archive with a build backend of its own into the index, as the package's one
    archive, and return its SHA-256.
    """
    stem = f"{name.replace('-', '_')}-{version}"
    files = {
        "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        "backend.py": backend,
        "pyproject.toml": (
            f'[project]\nname = "{name}"\nversion = "{version}"\n'
            '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        ),
    }
    archive = root / "files" / f"{stem}.tar.gz"
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "w:gz") as packed:
        for file, text in files.items():
            entry = tarfile.TarInfo(f"{stem}/{file}")
            entry.size = len(text.encode())
            packed.addfile(entry, io.BytesIO(text.encode()))
    return list_archive(root, name, archive)


def yank(root: Path, name: str, why: str) -> None:
    """Withdraw what the index has of a package."""
    page = root / "simple" / name / "index.html"
    page.write_text(page.read_text().replace("<a ", f'<a data-yanked="{why}" '))


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

    server = _Server((address, 0), partial(Handler, directory=str(root)))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://{address}:{server.server_port}/simple"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
