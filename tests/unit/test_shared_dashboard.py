"""A scheduler's dashboard over HTTPS: who is told of it, and what a browser gets. The browser
itself is in the simulator's tests.
"""

import asyncio
import contextlib
import json
import re
import ssl
import urllib.error
import urllib.request
from asyncio import to_thread
from types import SimpleNamespace

import dask.config
import pytest
from distributed import Scheduler
from distributed.dashboard.scheduler import applications
from tornado.routing import PathMatches, RuleRouter
from tornado.web import Application

from terradask._clusters.attach import Attachment
from terradask._clusters.certificates import make_keys
from terradask._dask.commands import pack_command
from terradask._dask.dashboard import DashboardForward
from terradask.errors import VersionMismatch
from terradask_host.commands import ReadDashboardLink
from terradask_host.documents import SchedulerAddress
from terradask_host.http_proxy.pages import COMMAND_PAGE
from terradask_host.http_proxy.pipes import to_port
from terradask_host.preload.commands import Commands
from terradask_host.preload.forward import Forward, SharedDashboard, server_context
from terradask_host.preload.jupyter_server import own_jupyter_site

from ..waiting import HANG_SECONDS

KEYS = make_keys("etl", "r1")
ADDRESS = SchedulerAddress(
    "r1", "i-1", 1, "tls://127.0.0.1:8786", "tls://3.0.0.1:8786", 8787, "3.11", {}
)
LINK = pack_command(ReadDashboardLink())
LENGTH = f"Content-Length: {len(LINK)}\r\n"
ATTACHMENT = Attachment(SimpleNamespace(cluster="etl"), SimpleNamespace(), ADDRESS, KEYS)


@pytest.fixture
def written(tmp_path):
    """The keys of both ends in files, as a host has them."""
    for name, content in (
        ("ca", KEYS.ca),
        ("cert", KEYS.scheduler.cert),
        ("key", KEYS.scheduler.key),
    ):
        (tmp_path / name).write_text(content)
    return {name: str(tmp_path / name) for name in ("ca", "cert", "key")}


@contextlib.asynccontextmanager
async def reached(scheduler, written):
    """Yield a client's way to the pages of a scheduler."""
    forward = Forward(
        "127.0.0.1",
        0,
        dial=at(scheduler),
        context=server_context(**written),
    )
    await forward.start()

    async def find():
        return "127.0.0.1", forward._server.sockets[0].getsockname()[1]

    security = KEYS.client_security().get_connection_args("client")
    try:
        yield DashboardForward(find, security["ssl_context"])
    finally:
        await forward.close()


def shared_of(scheduler, *arguments):
    """Return the dashboard over HTTPS of a scheduler that tells clients of it."""
    shared = SharedDashboard(*arguments)
    Commands(scheduler, {ReadDashboardLink: shared.link})
    return shared


def at(scheduler):
    return to_port("127.0.0.1", scheduler.http_server.port)


def scheduler_here():
    return Scheduler(host="127.0.0.1", port=0, dashboard_address="127.0.0.1:0")


async def test_clients_are_told_where_it_is_and_who_has_the_token_gets_in(written):
    wanted = {"host": "127.0.0.1", "port": 0, "cert": written["cert"], "key": written["key"]}
    async with scheduler_here() as scheduler, reached(scheduler, written) as asking:
        door = shared_of(scheduler, wanted, at(scheduler))
        await door.start()
        try:
            found = await asking.shared(ATTACHMENT, public=False)
            base, _, query = found.link.partition("/status?")
            assert base.startswith("https://127.0.0.1:")
            assert query not in repr(found)
            assert (await asking.shared(ATTACHMENT, public=True)).link == found.link.replace(
                "127.0.0.1", "3.0.0.1"
            )
            # Its certificate is of the cluster's authority, whoever trusts that.
            tls = ssl.create_default_context(cadata=KEYS.ca)
            browser = urllib.request.build_opener(
                urllib.request.HTTPSHandler(context=tls), urllib.request.HTTPCookieProcessor()
            )
            tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
            page = f"{base}/info/main/workers.html"
            with pytest.raises(urllib.error.HTTPError, match="403") as refused:
                await to_thread(browser.open, page, timeout=HANG_SECONDS)
            refused.value.close()
            for link, content in ((found.link, b"url=./status"), (page, b"Scheduler")):
                with await to_thread(browser.open, link, timeout=HANG_SECONDS) as answer:
                    assert content in answer.read()
        finally:
            await door.close()
        assert door.link() is None


#: Routes of Dask's that a link for watching opens, beside each plot's.
WATCHED = ("/", "/favicon.ico", "/info", "/info/main/exceptions.html", "/info/main/workers.html")
WATCHED_PARTS = ("/info/task/", "/info/worker/", "/static", "/statics")
#: Those that a user's configuration may add.
MORE = ["distributed.http.scheduler.api", "distributed.http.proxy"]


async def test_a_link_for_watching_opens_what_watching_needs(written):
    """Of all that a scheduler serves, with a notebook server beside it."""
    usual = dask.config.get("distributed.scheduler.http.routes")
    wanted = {"host": "127.0.0.1", "port": 0, "cert": written["cert"], "key": written["key"]}
    with dask.config.set({"distributed.scheduler.http.routes": [*usual, *MORE]}):
        scheduler = scheduler_here()
    async with scheduler, reached(scheduler, written) as asking:
        jupyter = own_jupyter_site("/nowhere.sock")
        shared = shared_of(scheduler, wanted, at(scheduler), jupyter)
        await shared.start()
        try:
            paths = served(scheduler.http_application)
            own = {COMMAND_PAGE, "/sitemap.json", "/api/v1/retire_workers", "/metrics"}
            assert own | {"/status/ws", "/proxy/1/x/x", "/info/logs/x.html"} <= paths
            parts = ("", "/ws", "/metadata", "/autoload.js")
            plots = {plot + part for plot in applications for part in parts}
            assert {"/status/ws", "/individual-cpu"} <= plots & paths
            others = {path for path in paths if path.startswith(WATCHED_PARTS)}
            closed = paths - plots - others - {*WATCHED}
            # One of these is enough.
            closed -= {f"{plot}/static/x" for plot in applications if plot != "/status"}
            for path in ("/status/ws", *others, *(paths & {*WATCHED})):
                assert CLOSED_BYTES not in await asked(shared, path), path
            for path in closed:
                assert CLOSED_BYTES in await asked(shared, path), path
            token = shared.link()["jupyter_path"].partition("=")[2]
            # Under no other name either.
            tricks = ["//terradask/command", "/status/../terradask/command"]
            tricks += ["/statics/..%2f..%2fterradask/command", "/%74erradask/command"]
            for path in closed:
                assert token.encode() not in await asked(shared, path)
            for path in [*tricks, COMMAND_PAGE, f"{COMMAND_PAGE}/", f"{COMMAND_PAGE}?x"]:
                for method in ("GET", "POST"):
                    answer = await asked(shared, path, method, LENGTH, LINK.decode("latin-1"))
                    assert token.encode() not in answer
            assert CLOSED_BYTES in await asked(shared, "/status", method="POST")
            # Whom it is for gets it.
            assert token.encode() in (await asking._post(COMMAND_PAGE, LINK))[1]
        finally:
            await shared.close()


async def test_no_link_to_the_dashboard_on_this_machine_leads_to_the_notebooks(written):
    async with scheduler_here() as scheduler, reached(scheduler, written) as forward:
        shared_of(scheduler, None, at(scheduler))
        await forward.start()
        try:
            base = forward.link.rpartition("/")[0]
            for content in (None, LINK):
                request = urllib.request.Request(base + COMMAND_PAGE, data=content)
                with pytest.raises(urllib.error.HTTPError, match="403") as refused:
                    await to_thread(urllib.request.urlopen, request, timeout=HANG_SECONDS)
                refused.value.close()
            page = f"{base}/json/counts.json"
            with await to_thread(urllib.request.urlopen, page, timeout=HANG_SECONDS) as answer:
                assert "workers" in json.load(answer)
            assert (await forward._post(COMMAND_PAGE, LINK))[0] == 200
        finally:
            await forward.close()


def served(application):
    """Return a path for each route of a web application."""
    found = set()
    waiting = [application, *application.applications]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Application):
            waiting += [each.default_router, each.wildcard_router]
        elif isinstance(each, RuleRouter):
            waiting += each.rules
        elif isinstance(each.target, RuleRouter):
            waiting.append(each.target)
        elif isinstance(each.matcher, PathMatches):
            pattern = each.matcher.regex.pattern.rstrip("$").removesuffix("/?")
            found.add(re.sub(r"\(.*?\)", lambda part: "1" if "d" in part[0] else "x", pattern))
    return {path.replace("\\", "") or "/" for path in found}


async def test_a_second_request_passes_no_door_behind_the_first(written):
    """It asks for another protocol, which is refused: the scheduler would serve what follows."""
    wanted = {"host": "127.0.0.1", "port": 0, "cert": written["cert"], "key": written["key"]}
    async with scheduler_here() as scheduler:
        jupyter = own_jupyter_site("/nowhere.sock")
        shared = shared_of(scheduler, wanted, at(scheduler), jupyter)
        await shared.start()
        head = f"POST {COMMAND_PAGE} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{LENGTH}\r\n"
        second = head + LINK.decode("latin-1")
        try:
            for path in ("/status", "/status/ws", "/info"):
                for protocol in ("websocket", "x"):
                    change = f"Connection: keep-alive, upgrade\r\nUpgrade: {protocol}\r\n"
                    answer = await asked(shared, path, more=change, after=second)
                    assert answer.startswith(b"HTTP/1.1 ")
                    assert jupyter.admission.token.encode() not in answer
        finally:
            await shared.close()


async def asked(shared, path, method="GET", more="", after=""):
    """Return the answer to one who has the link for watching."""
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    door = shared._admission
    reader, writer = await asyncio.open_connection("127.0.0.1", shared._proxy.port, ssl=tls)
    cookie = f"Cookie: {door.cookie}={door.token}"
    writer.write(
        f"{method} {path} HTTP/1.1\r\nHost: x\r\n{cookie}\r\n{more}\r\n{after}".encode("latin-1")
    )
    answer = await asyncio.wait_for(reader.read(), HANG_SECONDS)
    writer.close()
    return answer


CLOSED_BYTES = b"it doesn&#x27;t open this page"


@pytest.mark.parametrize("hosts", ["older", "without"])
async def test_hosts_that_have_none_are_named(hosts, written):
    async with scheduler_here() as scheduler, reached(scheduler, written) as asking:
        if hosts == "without":
            await shared_of(scheduler, None, at(scheduler)).start()
        with pytest.raises(VersionMismatch, match="stop and start"):
            await asking.shared(ATTACHMENT, public=True)


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        {"port": "8788", "path": "/status?terradask-token=x"},
        {"port": 8788, "path": "/status?terradask-token=\u001b[2J"},
        {"port": 8788, "path": "@evil.example/"},
        {"port": 8788, "path": "/status?terradask-token=x", "jupyter_path": "@evil.example/"},
        {"port": 8788, "path": "/status?terradask-token=x", "jupyter_path": 1},
    ],
)
async def test_an_answer_of_another_form_is_no_link(answer):
    """A task may have taken over the scheduler's process, and the link is printed."""

    class Hostile(DashboardForward):
        async def send(self, cluster, command):
            return answer

    with pytest.raises(VersionMismatch):
        await Hostile(None, None).shared(ATTACHMENT, public=True)
