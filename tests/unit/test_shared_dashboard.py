"""A scheduler's dashboard over HTTPS: who is told of it, and what a browser gets. The browser
itself is in the simulator's tests.
"""

import ssl
import urllib.error
import urllib.request
from asyncio import to_thread
from types import SimpleNamespace

import pytest
from distributed import Scheduler
from distributed.core import rpc

from terradask._dask.shared_dashboard import request_shared_dashboard
from terradask._deployments.attach import Attachment
from terradask._deployments.certificates import make_keys
from terradask._deployments.documents import SchedulerAddress
from terradask.errors import VersionMismatch
from terradask_host.preload.shared_dashboard import SharedDashboard

from ..waiting import HANG_SECONDS

KEYS = make_keys("etl", "r1")
ADDRESS = SchedulerAddress(
    "r1", "i-1", 1, "tls://127.0.0.1:8786", "tls://3.0.0.1:8786", 8787, "3.11", {}
)
ATTACHMENT = Attachment(SimpleNamespace(cluster="etl"), SimpleNamespace(), ADDRESS, KEYS)


async def test_clients_are_told_where_it_is_and_who_has_the_token_gets_in(tmp_path):
    for name, content in (("cert", KEYS.scheduler.cert), ("key", KEYS.scheduler.key)):
        (tmp_path / name).write_text(content)
    wanted = {
        "host": "127.0.0.1",
        "port": 0,
        "cert": str(tmp_path / "cert"),
        "key": str(tmp_path / "key"),
    }
    async with (
        Scheduler(host="127.0.0.1", port=0, dashboard_address="127.0.0.1:0") as scheduler,
        rpc(scheduler.address) as asking,
    ):
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
async def test_hosts_that_have_none_are_named(hosts):
    async with (
        Scheduler(host="127.0.0.1", port=0, dashboard_address="127.0.0.1:0") as scheduler,
        rpc(scheduler.address) as asking,
    ):
        if hosts == "without":
            await SharedDashboard(scheduler, None).start()
        with pytest.raises(VersionMismatch, match="stop and start"):
            await request_shared_dashboard(asking, ATTACHMENT, public=True)
