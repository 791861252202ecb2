"""The door in front of the dashboard opens for the cluster's clients alone."""

import asyncio
import contextlib
import ssl
from types import SimpleNamespace

import pytest

from terradask._clusters.certificates import make_keys
from terradask_host.http_proxy.jupyter_site import PROTOCOL
from terradask_host.http_proxy.pipes import to_port
from terradask_host.preload.forward import Forward, roles_of, server_context
from terradask_host.preload.jupyter_server import own_jupyter_site

from ..waiting import HANG_SECONDS

KEYS = make_keys("etl", "20261120T051500Z-abc123")
PAGE = b"the dashboard"
#: More than the head of a TLS record: what is no handshake is refused at once.
REQUEST = b"GET / HTTP/1.1\r\n\r\n"


def _files(folder, keys, role):
    bundle = getattr(keys, role)
    for name, text in (("ca", keys.ca), (f"{role}.pem", bundle.cert), (f"{role}.key", bundle.key)):
        (folder / name).write_text(text)
    return SimpleNamespace(
        ca=str(folder / "ca"), cert=str(folder / f"{role}.pem"), key=str(folder / f"{role}.key")
    )


def _context(folder, keys, role):
    files = _files(folder, keys, role)
    context = ssl.create_default_context(cafile=files.ca)
    context.check_hostname = False
    context.load_cert_chain(files.cert, files.key)
    return context


@contextlib.asynccontextmanager
async def door(folder):
    """Serve a page behind the forward; yields the forward's port and the number of requests that
    reached the page.
    """
    reached = []

    async def serve(reader, writer):
        reached.append(await reader.read(len(REQUEST)))
        writer.write(PAGE)
        writer.close()

    page = await asyncio.start_server(serve, "127.0.0.1", 0)
    mine = folder / "scheduler"
    mine.mkdir()
    files = _files(mine, KEYS, "scheduler")
    context = server_context(ca=files.ca, cert=files.cert, key=files.key)
    forward = Forward(
        "127.0.0.1", 0, dial=to_port("127.0.0.1", page.sockets[0].getsockname()[1]), context=context
    )
    await forward.start()
    try:
        yield forward._server.sockets[0].getsockname()[1], reached
    finally:
        await forward.close()
        page.close()


async def ask(port, context):
    """Return what comes through, nothing where the door stays shut."""
    writer = None
    try:
        async with asyncio.timeout(HANG_SECONDS):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            writer.write(REQUEST)
            return await reader.read()
    except OSError:
        return b""
    finally:
        if writer is not None:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


async def test_a_client_sees_the_dashboard(tmp_path):
    async with door(tmp_path) as (port, reached):
        assert await ask(port, _context(tmp_path, KEYS, "client")) == PAGE
        assert reached == [REQUEST]


@pytest.mark.parametrize("role", ["worker", "scheduler"])
async def test_a_hosts_certificate_is_of_the_wrong_role(tmp_path, role, capsys):
    async with door(tmp_path) as (port, reached):
        for _ in range(3):
            answer = await ask(port, _context(tmp_path, KEYS, role))
            assert answer.startswith(b"HTTP/1.1 403 ")
        assert reached == []
    assert capsys.readouterr().err.count(f"{role} from 127.0.0.1") == 1


@contextlib.asynccontextmanager
async def door_with_notebooks(folder, socket):
    """Serve as `door` does, with a notebook server at a socket; yields the port and a context."""
    site = own_jupyter_site(str(socket))
    files = _files(folder, KEYS, "scheduler")
    context = server_context(ca=files.ca, cert=files.cert, key=files.key)
    page = await asyncio.start_server(_page(PAGE), "127.0.0.1", 0)
    forward = Forward(
        "127.0.0.1",
        0,
        dial=to_port("127.0.0.1", page.sockets[0].getsockname()[1]),
        context=context,
        by_protocol={PROTOCOL: site},
    )
    await forward.start()
    try:
        yield forward._server.sockets[0].getsockname()[1]
    finally:
        await forward.close()
        page.close()


def _page(content):
    async def serve(reader, writer):
        await reader.read(len(REQUEST))
        writer.write(content)
        writer.close()

    return serve


async def test_notebooks_are_asked_for_by_name_and_by_clients_alone(tmp_path):
    mine = tmp_path / "scheduler"
    mine.mkdir()
    plain = _context(tmp_path, KEYS, "client")
    asking = _context(tmp_path, KEYS, "client")
    asking.set_alpn_protocols([PROTOCOL])
    worker = _context(tmp_path, KEYS, "worker")
    worker.set_alpn_protocols([PROTOCOL])
    socket = tmp_path / "server.sock"
    async with door_with_notebooks(mine, socket) as port:
        waiting = asyncio.create_task(ask(port, asking))
        # A server that is still starting is waited for.
        await asyncio.sleep(0.5)
        assert not waiting.done()
        server = await asyncio.start_unix_server(_page(b"a notebook"), socket)
        assert await waiting == b"a notebook"
        assert await ask(port, plain) == PAGE
        assert (await ask(port, worker)).startswith(b"HTTP/1.1 403 ")
        server.close()


async def test_a_client_is_told_that_there_are_no_notebooks(tmp_path, monkeypatch):
    monkeypatch.setattr("terradask_host.preload.jupyter_server._START_SECONDS", 0.1)
    mine = tmp_path / "scheduler"
    mine.mkdir()
    asking = _context(tmp_path, KEYS, "client")
    asking.set_alpn_protocols([PROTOCOL])
    async with door_with_notebooks(mine, tmp_path / "none.sock") as port:
        answer = await ask(port, asking)
        assert answer.startswith(b"HTTP/1.1 502 ")
        assert b"no JupyterLab" in answer


async def test_another_cluster_an_older_tls_and_no_certificate_are_refused(tmp_path):
    older = _context(tmp_path, KEYS, "client")
    older.maximum_version = ssl.TLSVersion.TLSv1_2
    other = _context(tmp_path, make_keys("etl", "other"), "client")
    other.verify_mode = ssl.CERT_NONE
    nobody = ssl.create_default_context(cadata=KEYS.ca)
    nobody.check_hostname = False
    async with door(tmp_path) as (port, reached):
        for context in (older, other, nobody, None):
            assert await ask(port, context) == b""
        assert reached == []


@pytest.mark.parametrize(
    ("certificate", "roles"),
    [
        (None, []),
        ({}, []),
        ({"subject": ((("commonName", "client"),),)}, []),
        (
            {
                "subject": (
                    (("organizationalUnitName", "client"),),
                    (("organizationalUnitName", "worker"),),
                )
            },
            ["client", "worker"],
        ),
    ],
)
def test_roles_are_the_organizational_units_and_nothing_else(certificate, roles):
    assert roles_of(certificate) == roles
