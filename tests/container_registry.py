"""A registry of container images on loopback, and images made of files."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import ssl
import tarfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
#: What the registry's tokens are.
TOKEN = "a-token-for-all"


def file(name: str, content: str = "", *, mode: int = 0o644) -> tuple[tarfile.TarInfo, bytes]:
    """Return an entry of a layer: a regular file."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = len(content.encode()), mode, 1_700_000_000
    return entry, content.encode()


def other(
    name: str, kind: bytes, target: str = "", *, mode: int = 0o755
) -> tuple[tarfile.TarInfo, bytes]:
    """Return an entry of another kind: a folder, a link, a device."""
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.mode = kind, target, mode
    return entry, b""


def layer(*entries: tuple[tarfile.TarInfo, bytes], packed: bool = True) -> bytes:
    """Return a layer of these entries."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for entry, content in entries:
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(buffer.getvalue(), mtime=0) if packed else buffer.getvalue()


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@dataclass
class ContainerRegistry:
    """What a registry has, and how it behaves."""

    blobs: dict[str, bytes] = field(default_factory=dict)
    #: By repository and tag, or digest: media type and content.
    manifests: dict[tuple[str, str], tuple[str, bytes]] = field(default_factory=dict)
    #: Header that it wants; none: everyone may read.
    authorization: str | None = None
    #: What it says to those without.
    challenge: str = ""
    #: Username -> password of who may pull; none: as above.
    users: dict[str, str] = field(default_factory=dict)
    #: Users of those whom it knows, and lets pull nothing.
    barred: set[str] = field(default_factory=set)
    #: Whether it asks for tokens of its own, in place of the password.
    by_token: bool = False
    #: Tokens that are valid -> their users.
    tokens: dict[str, str] = field(default_factory=dict)
    #: Where it sends for archives, if not here.
    blobs_at: str | None = None
    #: Paths that were asked for, with the authorization given.
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    #: Archives whose first answer breaks off.
    broken_once: set[str] = field(default_factory=set)
    #: Its address, once it is served.
    address: str = ""

    def push(
        self,
        repository: str,
        tag: str,
        layers: Mapping[str, Sequence[bytes]],
        *,
        environ: Mapping[str, str] | None = None,
        entry_point: Sequence[str] = (),
    ) -> str:
        """Put an image for each architecture, ``amd64`` or ``arm64``, and return its digest."""
        made = []
        run = {
            "Env": [f"{name}={value}" for name, value in (environ or {}).items()],
            "Entrypoint": list(entry_point),
        }
        for architecture, archives in layers.items():
            config = json.dumps({"architecture": architecture, "os": "linux", "config": run})
            manifest = {
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "config": self._blob(config.encode(), "application/vnd.oci.image.config.v1+json"),
                "layers": [self._blob(archive, _LAYER) for archive in archives],
            }
            content = json.dumps(manifest).encode()
            self.manifests[repository, digest_of(content)] = (MANIFEST, content)
            made.append((architecture, content))
        platforms = [
            {
                "mediaType": MANIFEST,
                "digest": digest_of(content),
                "size": len(content),
                "platform": {"os": "linux", "architecture": architecture},
            }
            for architecture, content in made
        ]
        # As builders put their own records beside the images.
        platforms.append({**platforms[0], "platform": {"os": "unknown", "architecture": "unknown"}})
        index = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": platforms})
        entry = (INDEX, index.encode()) if len(made) > 1 else (MANIFEST, made[0][1])
        digest = digest_of(entry[1])
        self.manifests[repository, tag] = self.manifests[repository, digest] = entry
        return digest

    def _blob(self, content: bytes, media_type: str) -> dict[str, Any]:
        digest = digest_of(content)
        self.blobs[digest] = content
        return {"mediaType": media_type, "digest": digest, "size": len(content)}

    @contextmanager
    def serving(
        self, host: str = "127.0.0.1", *, context: ssl.SSLContext | None = None
    ) -> Iterator[str]:
        """Serve it, and yield its address, as images are named."""
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry._answer(self)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        server = ThreadingHTTPServer((host, 0), Handler)
        server.daemon_threads = True
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        self.address = f"{host}:{server.server_port}"
        try:
            yield self.address
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        given = request.headers.get("Authorization")
        path = request.path
        self.asked.append((path, given))
        repository, _, name = path.removeprefix("/v2/").partition("/manifests/")
        refusal = self._refusal(given, path) if self.users else None
        if refusal is not None:
            _reply(request, *refusal)
        elif path.startswith("/token"):
            _reply(request, 200, json.dumps({"token": TOKEN}).encode())
        elif self.authorization not in (None, given) and not self.users:
            _reply(request, 401, b"", {"WWW-Authenticate": self.challenge})
        elif name:
            kind, content = self.manifests.get((repository, name), ("", b""))
            _reply(request, 200 if content else 404, content, {"Content-Type": kind})
        elif self.blobs_at is not None and not path.startswith("/stored/"):
            where = f"{self.blobs_at}/stored/{path.rpartition('/')[2]}"
            _reply(request, 307, b"", {"Location": where})
        else:
            self._blob_reply(request, path.rpartition("/")[2])

    def _refusal(self, given: str | None, path: str) -> tuple[int, bytes, dict[str, str]] | None:
        """Return what it answers to whom it doesn't know, or to who asks for a token."""
        kind, _, text = (given or "").partition(" ")
        user = None
        if kind == "Basic" and (not self.by_token or path.startswith("/token")):
            name, _, password = base64.b64decode(text).decode().partition(":")
            user = name if self.users.get(name) == password else None
        elif kind == "Bearer" and self.by_token:
            user = self.tokens.get(text)
        if user is None:
            challenge = 'Basic realm="registry"'
            if self.by_token:
                repository = path.removeprefix("/v2/").rpartition("/")[0].rpartition("/")[0]
                challenge = (
                    f'Bearer realm="http://{self.address}/token",service="registry",'
                    f'scope="repository:{repository}:pull"'
                )
            return 401, b"{}", {"WWW-Authenticate": challenge}
        if path.startswith("/token"):
            token = f"{TOKEN}-{len(self.tokens)}"
            self.tokens[token] = user
            return 200, json.dumps({"token": token}).encode(), {}
        return (403, b"{}", {}) if user in self.barred else None

    def _blob_reply(self, request: BaseHTTPRequestHandler, digest: str) -> None:
        content = self.blobs.get(digest)
        if content is None:
            return _reply(request, 404, b"{}")
        if digest in self.broken_once:
            self.broken_once.discard(digest)
            content = content[: len(content) // 2]
        return _reply(request, 200, content)


def password_header(password: str) -> str:
    """Return the header by which Amazon ECR's password is given."""
    return "Basic " + base64.b64encode(f"AWS:{password}".encode()).decode()


def _reply(
    request: BaseHTTPRequestHandler,
    status: int,
    content: bytes,
    headers: Mapping[str, str] | None = None,
) -> None:
    request.send_response(status)
    for name, value in (headers or {}).items():
        request.send_header(name, value)
    request.send_header("Content-Length", str(len(content)))
    request.end_headers()
    request.wfile.write(content)
