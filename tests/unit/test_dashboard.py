"""The dashboard's way: browser, door on loopback, mutual TLS, the host's forward, a web server.
Only the browser and Dask are missing.
"""

import asyncio
import contextlib
import os
import socket

import dask
import pytest
import tornado.web
import tornado.websocket
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets

from terradask._clusters.certificates import make_keys
from terradask._common.once import OncePerCause
from terradask._dask import dashboard
from terradask._dask.dashboard import DashboardForward
from terradask_host.http_proxy import pipes, server
from terradask_host.http_proxy.admission import Admission
from terradask_host.http_proxy.request import BadRequest, parse_request
from terradask_host.preload.forward import Forward, server_context

from ..waiting import HANG_SECONDS, eventually_async

LARGE = os.urandom(1 << 20) * 16


class Page(tornado.web.RequestHandler):
    def get(self):
        self.write(f"{self.request.uri} {self.request.headers.get('Cookie')}")

    def post(self):
        self.write(str(len(self.request.body)))


class Large(tornado.web.RequestHandler):
    def get(self):
        self.write(LARGE)


class Echo(tornado.websocket.WebSocketHandler):
    def check_origin(self, _):
        # As Bokeh does by Dask's configuration.
        return True

    def on_message(self, message):
        self.write_message(message, binary=isinstance(message, bytes))


class Route:
    """All of it."""

    def __init__(self, forward, client, far, web, port):
        self.forward = forward
        self.host, self.web, self.web_port = far, web, port
        self.tls = client

    @property
    def admission(self):
        return self.forward._site.admission

    async def connect(self):
        return await asyncio.open_connection("127.0.0.1", self.forward.port)

    async def ask(self, target="/page", *headers, method="GET", body=b""):
        """Ask over a connection of its own; return the status and the body."""
        reader, writer = await self.connect()
        writer.write(self.head(target, *headers, method=method) + body)
        answer = await asyncio.wait_for(reader.read(), HANG_SECONDS)
        writer.close()
        head, _, content = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]), content

    def head(self, target, *headers, method="GET"):
        lines = [
            f"{method} /{self.admission.token}{target} HTTP/1.1",
            f"Host: 127.0.0.1:{self.forward.port}",
            *headers,
            "",
            "",
        ]
        return "\r\n".join(lines).encode()


@pytest.fixture(scope="module")
def contexts(tmp_path_factory):
    """TLS of both ends, with the keys of one run."""
    keys, folder = make_keys("etl", "run"), tmp_path_factory.mktemp("keys")
    for name, content in (
        ("ca", keys.ca),
        ("cert", keys.scheduler.cert),
        ("key", keys.scheduler.key),
    ):
        (folder / name).write_text(content)
    host = server_context(ca=str(folder / "ca"), cert=str(folder / "cert"), key=str(folder / "key"))
    return host, keys.client_security().get_connection_args("client")["ssl_context"]


@contextlib.asynccontextmanager
async def standing(contexts):
    """Yield a whole way; nothing may go wrong unheard on it."""
    troubles = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: troubles.append(context))
    host_tls, client_tls = contexts
    web = HTTPServer(
        tornado.web.Application(
            [("/page", Page), ("/large", Large), ("/echo", Echo)],
            websocket_max_message_size=1 << 26,
        )
    )
    sockets = bind_sockets(0, "127.0.0.1")
    web.add_sockets(sockets)
    behind = pipes.to_port("127.0.0.1", sockets[0].getsockname()[1])
    far = Forward("127.0.0.1", 0, dial=behind, context=host_tls)
    await far.start()
    far_port = far._server.sockets[0].getsockname()[1]

    async def find():
        return "127.0.0.1", far_port

    forward = DashboardForward(find, client_tls)
    await forward.start()
    try:
        yield Route(forward, client_tls, far, web, sockets[0].getsockname()[1])
    finally:
        await forward.close()
        await far.close()
        web.stop()
        await web.close_all_connections()
        await asyncio.sleep(0.05)
    assert troubles == []


async def test_the_link_opens_and_the_token_stays_here(contexts):
    async with standing(contexts) as way:
        assert (
            way.forward.link == f"http://127.0.0.1:{way.forward.port}/{way.admission.token}/status"
        )
        assert await way.ask("/page?a=1", "X-Other: 1") == (200, b"/page?a=1 None")
        reader, writer = await way.connect()
        writer.write(way.head("/page"))
        head = (await asyncio.wait_for(reader.read(), HANG_SECONDS)).partition(b"\r\n\r\n")[0]
        assert b"\r\nReferrer-Policy: no-referrer" in head
        writer.close()
        assert (await way.ask("/page", "Origin: http://evil.example"))[0] == 403


async def test_the_link_is_as_dask_is_told(contexts):
    with dask.config.set(
        {"distributed.dashboard.link": "/user/{JUPYTERHUB_USER}/proxy/{port}/status"}
    ):
        os.environ["JUPYTERHUB_USER"] = "ada"
        try:
            async with standing(contexts) as way:
                token = way.admission.token
                assert way.forward.link == f"/user/ada/proxy/{way.forward.port}/{token}/status"
                # The proxy passes on what the browser asked it.
                reader, writer = await way.connect()
                writer.write(
                    (
                        f"GET /{token}/page HTTP/1.1\r\nHost: hub.example\r\n"
                        "Origin: https://hub.example\r\n\r\n"
                    ).encode()
                )
                assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
                writer.close()
        finally:
            del os.environ["JUPYTERHUB_USER"]


@pytest.mark.parametrize("template", ["{NO_SUCH_VARIABLE}/{port}/status", "http://[{port}", "{", 7])
async def test_a_link_that_can_not_be_made_here_is_the_plain_one_with_a_warning(
    contexts, template, monkeypatch, caplog
):
    monkeypatch.setattr(dashboard, "_unusable", OncePerCause())
    with dask.config.set({"distributed.dashboard.link": template}):
        async with standing(contexts) as way:
            plain = f"http://127.0.0.1:{way.forward.port}/{way.admission.token}/status"
            assert way.forward.link == way.forward.link == plain
            assert (await way.ask())[0] == 200
    (warning,) = [each for each in caplog.records if each.levelname == "WARNING"]
    assert "distributed.dashboard.link of Dask's configuration" in warning.message


async def test_a_websocket_and_large_answers_pass_whole(contexts):
    async with standing(contexts) as way:
        url = f"ws://127.0.0.1:{way.forward.port}/{way.admission.token}/echo"
        request = tornado.httpclient.HTTPRequest(
            url, headers={"Origin": f"http://127.0.0.1:{way.forward.port}"}
        )
        connection = await tornado.websocket.websocket_connect(request, max_message_size=1 << 26)
        for message in ("hello", LARGE[: 1 << 22], "again"):
            await connection.write_message(message, binary=isinstance(message, bytes))
            assert await connection.read_message() == message
        connection.close()
        assert await connection.read_message() is None
        status, content = await way.ask("/large")
        assert status == 200
        assert content == LARGE
        await eventually_async(lambda: not way.forward._proxy._tasks and not way.host._tasks)


async def test_a_websocket_of_another_origin_is_refused(contexts):
    async with standing(contexts) as way:
        url = f"ws://127.0.0.1:{way.forward.port}/{way.admission.token}/echo"
        request = tornado.httpclient.HTTPRequest(url, headers={"Origin": "http://127.0.0.1:1"})
        with pytest.raises(tornado.httpclient.HTTPClientError) as refused:
            await tornado.websocket.websocket_connect(request)
        assert refused.value.code == 403


async def test_many_ask_at_once_and_each_gets_its_own_answer(contexts):
    async with standing(contexts) as way:
        asked = [way.ask(f"/page?n={n}") for n in range(100)]
        assert await asyncio.gather(*asked) == [
            (200, f"/page?n={n} None".encode()) for n in range(100)
        ]


async def test_whoever_has_said_all_still_gets_the_answer(contexts):
    async with standing(contexts) as way:
        reader, writer = await way.connect()
        writer.write(way.head("/large"))
        writer.write_eof()
        answer = await asyncio.wait_for(reader.read(), HANG_SECONDS)
        assert answer.endswith(LARGE[-1000:])
        writer.close()


async def test_a_body_reaches_the_server(contexts):
    async with standing(contexts) as way:
        assert await way.ask(
            "/page", "Content-Length: 100000", method="POST", body=b"x" * 100_000
        ) == (200, b"100000")


async def test_who_reads_slowly_gets_all_and_who_reads_nothing_is_let_go(contexts, monkeypatch):
    monkeypatch.setattr(pipes, "STALLED_SECONDS", 0.5)
    monkeypatch.setattr(pipes, "FLUSH_SECONDS", 0.5)
    async with standing(contexts) as way:
        reader, writer = await asyncio.open_connection("127.0.0.1", way.forward.port, limit=1 << 14)
        writer.write(way.head("/large"))
        read = 0
        while chunk := await reader.read(1 << 20):
            read += len(chunk)
            if read < 1 << 20:
                await asyncio.sleep(0.01)
        assert read > len(LARGE)
        writer.close()
        silent = socket.create_connection(("127.0.0.1", way.forward.port))
        silent.sendall(way.head("/large"))
        await eventually_async(lambda: way.forward._proxy._tasks)
        await eventually_async(lambda: not way.forward._proxy._tasks and not way.host._tasks)
        silent.close()


async def test_a_host_that_is_gone_is_told_and_one_that_is_back_is_used(contexts):
    async with standing(contexts) as way:
        port = way.host._server.sockets[0].getsockname()[1]
        await way.host.close()
        status, page = await way.ask()
        assert status == 502
        assert b"scheduler&#x27;s host doesn&#x27;t answer" in page
        behind = pipes.to_port("127.0.0.1", way.web_port)
        way.host = again = Forward("127.0.0.1", port, dial=behind, context=contexts[0])
        await again.start()
        assert (await way.ask())[0] == 200
        await again.close()


async def test_a_host_of_another_authority_is_not_spoken_to(contexts):
    async with standing(contexts) as way:
        way.forward._context = (
            make_keys("other", "run").client_security().get_connection_args("client")["ssl_context"]
        )
        assert (await way.ask())[0] == 502


async def test_closing_ends_what_is_open(contexts):
    async with standing(contexts) as way:
        reader, writer = await way.connect()
        asked, asking = await way.connect()
        asking.write(
            way.head(
                "/echo",
                "Connection: Upgrade",
                "Upgrade: websocket",
                "Sec-WebSocket-Version: 13",
                "Sec-WebSocket-Key: YQ==",
            )
        )
        assert (await asked.readline()).startswith(b"HTTP/1.1 101 ")
        await way.forward.close()
        assert way.forward.port is None
        assert way.forward.link == ""
        assert await asyncio.wait_for(reader.read(), HANG_SECONDS) == b""
        with contextlib.suppress(ConnectionResetError):
            await asyncio.wait_for(asked.read(), HANG_SECONDS)
        writer.close()
        asking.close()


async def test_strangers_do_not_use_up_the_door(contexts, monkeypatch):
    monkeypatch.setattr(server, "MOST_WAITING", 5)
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.3)
    async with standing(contexts) as way:
        held = [await way.connect() for _ in range(5)]
        await eventually_async(lambda: way.forward._proxy._waiting == 5)
        reader, writer = await way.connect()
        with contextlib.suppress(ConnectionResetError):
            assert await asyncio.wait_for(reader.read(), HANG_SECONDS) == b""
        writer.close()
        await eventually_async(lambda: way.forward._proxy._waiting == 0)
        assert (await way.ask())[0] == 200
        for _, each in held:
            each.close()


# ---- whatever is sent ----------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        *(
            b"GET ",
            b"POST ",
            b"/",
            b" HTTP/1.1\r\n",
            b"\r\n",
            b"\r\n\r\n",
            b"?",
            b"&",
            b"\x16\x03\x01",
        ),
        *(
            b"Host: 127.0.0.1\r\n",
            b"Origin: ",
            b"Cookie: ",
            b"terradask-token=",
            b"Content-Length: 5\r\n",
        ),
        *(b"Transfer-Encoding: chunked\r\n", b"Upgrade: x\r\n", b"Connection: upgrade\r\n"),
    ]
)
SENT = st.one_of(
    st.binary(max_size=200),
    st.lists(st.one_of(PIECES, st.binary(max_size=8)), max_size=20).map(b"".join),
)


@given(SENT.map(lambda sent: sent + b"\r\n\r\n"))
@example(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
def test_any_head_is_read_or_refused(head):
    try:
        request = parse_request(head)
    except BadRequest:
        return
    answer = Admission(secure=False, hosts=None).judge(request)
    assert answer is not None
    assert answer.startswith(b"HTTP/1.1 403 ")
    again = parse_request(request.forwarded(without_cookie="x"))
    assert (again.method, again.path, again.query) == (request.method, request.path, request.query)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None
)
@given(sent=SENT, ends=st.sampled_from(["eof", "reset", "waits"]), tls=st.booleans())
def test_any_bytes_are_answered_or_dropped(contexts, sent, ends, tls):
    """To the door on loopback, and to the host's forward in front of TLS."""

    async def main():
        async with standing(contexts) as way:
            port = way.host._server.sockets[0].getsockname()[1] if tls else way.forward.port
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            if ends == "reset":
                writer.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0"
                )
                writer.transport.abort()
            else:
                writer.write(b"\r\n\r\n")
                if ends == "eof" and writer.can_write_eof():
                    writer.write_eof()
                answer = b""
                with contextlib.suppress(ConnectionResetError, TimeoutError):
                    answer = await asyncio.wait_for(reader.read(), 0.05 if tls else HANG_SECONDS)
                if not tls:
                    assert answer == b"" or answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 403 "))
                assert b"Traceback" not in answer
            writer.close()
            assert (await way.ask())[0] == 200

    asyncio.run(main())
