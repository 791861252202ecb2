"""The certificate for metrics opens the page with metrics, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ssl
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from terradask._clusters.certificates import make_keys
from terradask._observe.keys import Bundle, KeySet
from terradask_host.agent.keys import write_keys
from terradask_host.http_proxy.jupyter_site import PROTOCOL
from terradask_host.http_proxy.pipes import to_port
from terradask_host.preload.forward import METRICS_ROLE, Forward, server_context
from terradask_host.preload.gauges import Gauges, LoopLag, MetricsPage
from terradask_host.preload.jupyter_server import own_jupyter_site

from ..waiting import HANG_SECONDS

KEYS = make_keys("etl", "20261120T051500Z-abc123")
DASHBOARD = b"the dashboard"


class Fixed(Gauges):
    """Gauges that are always the same."""

    def __init__(self) -> None:
        super().__init__(None, LoopLag())
        self.reads = 0

    def values(self) -> dict[str, float]:
        self.reads += 1
        return {"threads": 4.0}


@contextlib.asynccontextmanager
async def door(folder: Path, keys: KeySet = KEYS) -> AsyncIterator[tuple[int, Fixed]]:
    """Serve a dashboard, notebooks that don't answer, and metrics, as a scheduler's host does."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(DASHBOARD)
        writer.close()

    files = write_keys(keys.to_document(), "scheduler", folder / "host")
    inner = await asyncio.start_server(serve, "127.0.0.1", 0)
    gauges = Fixed()
    forward = Forward(
        "127.0.0.1",
        0,
        dial=to_port("127.0.0.1", inner.sockets[0].getsockname()[1]),
        context=server_context(
            ca=str(files.ca),
            cert=str(files.cert),
            key=str(files.key),
            metrics_cert=None if files.metrics_cert is None else str(files.metrics_cert),
        ),
        by_protocol={PROTOCOL: own_jupyter_site(str(folder / "none.sock"))},
        by_role={METRICS_ROLE: MetricsPage(gauges).serve},
    )
    await forward.start()
    assert forward._server is not None
    try:
        yield forward._server.sockets[0].getsockname()[1], gauges
    finally:
        await forward.close()
        inner.close()


def context_of(folder: Path, bundle: Bundle, *protocols: str) -> ssl.SSLContext:
    """Return how Prometheus connects: it checks the scheduler's name."""
    (folder / "cert").write_text(bundle.cert)
    (folder / "key").write_text(bundle.key)
    context = ssl.create_default_context(cadata=KEYS.ca)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.load_cert_chain(folder / "cert", folder / "key")
    context.set_alpn_protocols(list(protocols))
    return context


async def ask(port: int, context: ssl.SSLContext, line: str = "GET /metrics HTTP/1.1") -> bytes:
    """Return the answer; nothing where the door stays shut."""
    writer = None
    try:
        async with asyncio.timeout(HANG_SECONDS):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=context, server_hostname="scheduler.terradask"
            )
            writer.write(f"{line}\r\nHost: 10.0.0.1:8787\r\n\r\n".encode())
            return await reader.read()
    except OSError:
        return b""
    finally:
        if writer is not None:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


async def test_it_opens_the_metrics(tmp_path: Path) -> None:
    assert KEYS.metrics is not None
    async with door(tmp_path) as (port, gauges):
        for protocols in ((), ("h2", "http/1.1")):
            answer = await ask(port, context_of(tmp_path, KEYS.metrics, *protocols))
            head, _, body = answer.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 OK\r\n")
            assert b"Content-Type: text/plain; version=0.0.4" in head
            assert body.endswith(b"\nterradask_threads 4.0\n")
        assert gauges.reads == 2


@pytest.mark.parametrize(
    "line",
    [
        "GET / HTTP/1.1",
        "GET /status HTTP/1.1",
        "GET /metrics/ HTTP/1.1",
        "GET //metrics HTTP/1.1",
        "GET /json/counts.json HTTP/1.1",
        "GET /terradask/report HTTP/1.1",
        "POST /metrics HTTP/1.1",
    ],
)
@pytest.mark.parametrize("protocols", [(), (PROTOCOL,)])
async def test_it_opens_nothing_else(tmp_path: Path, line: str, protocols: tuple[str, ...]) -> None:
    assert KEYS.metrics is not None
    async with door(tmp_path) as (port, gauges):
        answer = await ask(port, context_of(tmp_path, KEYS.metrics, *protocols), line)
        assert answer.startswith(b"HTTP/1.1 403 ")
        assert gauges.reads == 0


@pytest.mark.parametrize("line", ["nonsense", "GET /metrics HTTP/1.1\r\nHost: other"])
async def test_what_is_no_request_is_refused(tmp_path: Path, line: str) -> None:
    assert KEYS.metrics is not None
    async with door(tmp_path) as (port, _):
        answer = await ask(port, context_of(tmp_path, KEYS.metrics), line)
        assert answer.startswith(b"HTTP/1.1 400 ")


async def test_other_roles_are_served_as_before(tmp_path: Path) -> None:
    async with door(tmp_path) as (port, gauges):
        assert await ask(port, context_of(tmp_path, KEYS.client)) == DASHBOARD
        for bundle in (KEYS.worker, KEYS.scheduler):
            answer = await ask(port, context_of(tmp_path, bundle))
            assert answer.startswith(b"HTTP/1.1 403 ")
        assert gauges.reads == 0


def forged(unit: str) -> Bundle:
    """Sign a certificate for a role with the key for metrics."""
    assert KEYS.metrics is not None
    issuer = x509.load_pem_x509_certificate(KEYS.metrics.cert.encode())
    issuer_key = serialization.load_pem_private_key(KEYS.metrics.key.encode(), None)
    assert isinstance(issuer_key, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, unit)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(hours=1))
        .sign(issuer_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    return Bundle(
        made.public_bytes(pem).decode(),
        key.private_bytes(
            pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode(),
    )


@pytest.mark.parametrize("unit", ["client", "metrics"])
async def test_its_key_signs_no_other(tmp_path: Path, unit: str) -> None:
    async with door(tmp_path) as (port, _):
        assert await ask(port, context_of(tmp_path, forged(unit))) == b""


async def test_that_of_another_run_opens_nothing(tmp_path: Path) -> None:
    other = make_keys("etl", "20261120T061500Z-def456").metrics
    assert other is not None
    async with door(tmp_path) as (port, _):
        assert await ask(port, context_of(tmp_path, other)) == b""


async def test_a_run_of_an_older_terradask_has_none(tmp_path: Path) -> None:
    assert KEYS.metrics is not None
    async with door(tmp_path, replace(KEYS, metrics=None)) as (port, _):
        assert await ask(port, context_of(tmp_path, KEYS.metrics)) == b""
        assert await ask(port, context_of(tmp_path, KEYS.client)) == DASHBOARD


def test_only_the_schedulers_host_gets_it_and_no_host_its_key(tmp_path: Path) -> None:
    assert KEYS.metrics is not None
    for role, names in (
        ("worker", {"ca.pem", "worker.pem", "worker.key"}),
        ("scheduler", {"ca.pem", "scheduler.pem", "scheduler.key", "metrics.pem"}),
    ):
        folder = tmp_path / role
        write_keys(KEYS.to_document(), role, folder)
        assert {path.name for path in folder.iterdir()} == names
        assert all(KEYS.metrics.key not in path.read_text() for path in folder.iterdir())
        assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir())
