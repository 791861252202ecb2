"""The dashboard without a connection of Dask's: it follows the cluster until that is over."""

import asyncio
import contextlib
from types import SimpleNamespace

import pytest

from terradask._clusters.attach import Attachment
from terradask._clusters.certificates import make_keys
from terradask._dask.standalone_dashboard import StandaloneDashboard
from terradask.errors import ClusterStopped, EndpointUnreachable, SchedulerUnreachable
from terradask_host.documents import Run, SchedulerAddress
from terradask_host.http_proxy.pipes import to_port
from terradask_host.preload.forward import Forward, server_context
from terradask_stacks.settings import ClusterSettings

from ..waiting import HANG_SECONDS, eventually_async

KEYS = make_keys("etl", "r1")
RUN = Run("r1", "2026-11-20T05:15:00Z", "arn", "v1", "3.11", {}, 2)


def scheduler_at(port, boot=1):
    return SchedulerAddress("r1", f"i-{boot}", boot, "tls://127.0.0.1:1", None, port, "3.11", {})


class Bucket:
    """What the bucket has of the cluster, and of its scheduler; `trouble` is raised in place."""

    def __init__(self, scheduler):
        self.scheduler = scheduler
        self.running = RUN
        self.trouble = None
        self.objects = self

    def run(self):
        if self.trouble is not None:
            raise self.trouble
        return self.running

    def read(self, _):
        return self.scheduler.to_document()

    def why_stopped(self, run_id):
        return ClusterStopped("stopped", cluster="etl")


@pytest.fixture
async def hosts(tmp_path):
    """Start hosts, whose page is the number of their boot; return each one's scheduler."""
    for name, content in (
        ("ca", KEYS.ca),
        ("cert", KEYS.scheduler.cert),
        ("key", KEYS.scheduler.key),
    ):
        (tmp_path / name).write_text(content)
    context = server_context(**{name: str(tmp_path / name) for name in ("ca", "cert", "key")})
    open_ones = []

    async def start(boot):
        async def answer(reader, writer):
            # A client that only checks whether it is there sends nothing.
            with contextlib.suppress(asyncio.IncompleteReadError):
                await reader.readuntil(b"\r\n\r\n")
                writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{boot}".encode())
            writer.close()

        web = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = web.sockets[0].getsockname()[1]
        forward = Forward("127.0.0.1", 0, dial=to_port("127.0.0.1", port), context=context)
        await forward.start()
        open_ones.append((web, forward))
        return scheduler_at(forward._server.sockets[0].getsockname()[1], boot)

    yield start
    for web, forward in open_ones:
        web.close()
        await forward.close()


def lone(bucket, **seconds):
    attachment = Attachment(SimpleNamespace(cluster="etl"), RUN, bucket.scheduler, KEYS)
    workspace = SimpleNamespace(aws=None, baseline=lambda: SimpleNamespace(ingress=[]))
    running = SimpleNamespace(
        workspace=workspace,
        deployment=bucket,
        attachment=attachment,
        settings=ClusterSettings(connect="private"),
    )
    seconds = {"pause_seconds": 0.01, "poll_interval_seconds": 0.01, **seconds}
    return StandaloneDashboard(running, **seconds)


async def page(dashboard):
    """Return what a browser gets below the link."""
    forward = dashboard._forward
    reader, writer = await asyncio.open_connection("127.0.0.1", forward.port)
    head = f"GET /{forward._site.admission.token}/ HTTP/1.1\r\nHost: 127.0.0.1:{forward.port}"
    writer.write(f"{head}\r\n\r\n".encode())
    answer = await asyncio.wait_for(reader.read(), HANG_SECONDS)
    writer.close()
    return answer.rpartition(b"\r\n\r\n")[2]


async def test_a_replaced_scheduler_is_behind_the_same_link(hosts):
    bucket = Bucket(await hosts(1))
    async with lone(bucket) as dashboard:
        await dashboard.serve()
        link = dashboard.link
        assert await page(dashboard) == b"1"
        following = asyncio.create_task(dashboard.watch([].append))
        bucket.scheduler = await hosts(2)
        async with asyncio.timeout(HANG_SECONDS):
            while await page(dashboard) != b"2":
                await asyncio.sleep(0.01)
        assert dashboard.link == link
        following.cancel()


async def test_it_ends_with_the_cluster_and_not_with_the_network(hosts):
    bucket = Bucket(await hosts(1))
    said = []
    async with lone(bucket) as dashboard:
        bucket.trouble = EndpointUnreachable("S3 doesn't answer.")
        watching = asyncio.create_task(dashboard.watch(said.append))
        await eventually_async(lambda: bool(said))
        bucket.trouble, bucket.running = None, None
        with pytest.raises(ClusterStopped):
            await asyncio.wait_for(watching, HANG_SECONDS)
    assert said == ["S3 doesn't answer. Trying again"]


async def test_a_scheduler_that_is_replaced_before_the_first_connection_is_found(hosts):
    bucket = Bucket(scheduler_at(9))
    dashboard = lone(bucket)
    bucket.scheduler = await hosts(2)
    async with dashboard:
        await dashboard.serve()
        assert await page(dashboard) == b"2"


async def test_a_host_that_does_not_answer_is_an_error_with_its_address():
    with pytest.raises(SchedulerUnreachable) as caught:
        async with lone(Bucket(scheduler_at(9)), reach_seconds=0.1):
            pass
    assert caught.value.address == "127.0.0.1:9"


async def test_it_is_not_shared_unless_the_settings_say_so(hosts):
    async with lone(Bucket(await hosts(1))) as dashboard:
        assert await dashboard.shared() is None
