"""A scheduler's dashboard over HTTPS: who is told of it, and what a browser gets. The browser
itself is in the simulator's tests.
"""

import contextlib
import ssl
import urllib.error
import urllib.request
from asyncio import to_thread
from types import SimpleNamespace

import pytest
from distributed import Scheduler

from terradask._dask.dashboard import DashboardForward
from terradask._dask.shared_dashboard import request_shared_dashboard
from terradask._deployments.attachment import Attachment
from terradask._deployments.certificates import make_keys
from terradask.errors import VersionMismatch
from terradask_host.documents import SchedulerAddress
from terradask_host.preload.forward import Forward, server_context
from terradask_host.preload.shared_dashboard import SharedDashboard

from ..waiting import HANG_SECONDS

KEYS = make_keys("etl", "r1")
ADDRESS = SchedulerAddress(
    "r1", "i-1", 1, "tls://127.0.0.1:8786", "tls://3.0.0.1:8786", 8787, "3.11", {}
)
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
        target_port=scheduler.http_server.port,
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


def scheduler_here():
    return Scheduler(host="127.0.0.1", port=0, dashboard_address="127.0.0.1:0")


async def test_clients_are_told_where_it_is_and_who_has_the_token_gets_in(written):
    wanted = {"host": "127.0.0.1", "port": 0, "cert": written["cert"], "key": written["key"]}
    async with scheduler_here() as scheduler, reached(scheduler, written) as asking:
        door = SharedDashboard(scheduler, wanted)
        await door.start()
        try:
            found = await request_shared_dashboard(asking, ATTACHMENT, public=False)
            base, _, query = found.link.partition("/status?")
            assert base.startswith("https://127.0.0.1:")
            assert query not in repr(found)
            assert (
                await request_shared_dashboard(asking, ATTACHMENT, public=True)
            ).link == found.link.replace("127.0.0.1", "3.0.0.1")
            # Its certificate is of the cluster's authority, whoever trusts that.
            tls = ssl.create_default_context(cadata=KEYS.ca)
            browser = urllib.request.build_opener(
                urllib.request.HTTPSHandler(context=tls), urllib.request.HTTPCookieProcessor()
            )
            tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
            with pytest.raises(urllib.error.HTTPError, match="403"):
                await to_thread(browser.open, f"{base}/health", timeout=HANG_SECONDS)
            for page, content in ((found.link, b"url=./status"), (f"{base}/health", b"ok")):
                with await to_thread(browser.open, page, timeout=HANG_SECONDS) as answer:
                    assert content in answer.read()
        finally:
            await door.close()
        assert door.link() == {}


@pytest.mark.parametrize("hosts", ["older", "without"])
async def test_hosts_that_have_none_are_named(hosts, written):
    async with scheduler_here() as scheduler, reached(scheduler, written) as asking:
        if hosts == "without":
            await SharedDashboard(scheduler, None).start()
        with pytest.raises(VersionMismatch, match="stop and start"):
            await request_shared_dashboard(asking, ATTACHMENT, public=True)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"port": "8788", "path": "/status?terradask-token=x"}',
        b'{"port": 8788, "path": "/status?terradask-token=\\u001b[2J"}',
        b'{"port": 8788, "path": "@evil.example/"}',
        b'{"port": 8788, "path": "/status?terradask-token=x", "jupyter_path": "@evil.example/"}',
        b'{"port": 8788, "path": "/status?terradask-token=x", "jupyter_path": 1}',
        b"[" * 70_000,
    ],
)
async def test_an_answer_of_another_form_is_no_link(content):
    """A task may have taken over the scheduler's process, and the link is printed."""

    class Hostile:
        async def fetch(self, path):
            return 200, content

    with pytest.raises(VersionMismatch):
        await request_shared_dashboard(Hostile(), ATTACHMENT, public=True)
