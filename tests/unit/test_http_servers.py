"""Where Dask's HTTP servers listen on a host."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from typing import Any

import dask.config
import psutil
from distributed import Client, LocalCluster, Scheduler

from terradask_host.agent.launch_documents import WORKER_ROUTES
from terradask_host.http_proxy.pipes import to_socket
from terradask_host.preload.http_servers import at_socket

from ..waiting import HANG_SECONDS


def ports() -> list[int]:
    """Return where this process listens."""
    found = [each for each in psutil.net_connections("tcp") if each.pid == os.getpid()]
    return [each.laddr.port for each in found if each.status == psutil.CONN_LISTEN]


async def page(path: Path) -> bytes:
    reader, writer = await to_socket(str(path))()
    writer.write(b"GET /health HTTP/1.0\r\n\r\n")
    answer = await asyncio.wait_for(reader.read(), HANG_SECONDS)
    writer.close()
    return answer


async def test_a_schedulers_pages_are_at_a_socket_that_its_user_alone_opens(tmp_path: Path) -> None:
    # What an earlier scheduler has left there is replaced.
    path = tmp_path / "dashboard.sock"
    cls = at_socket(Scheduler, str(path), 8787)
    before = len(ports())
    for _ in range(2):
        scheduler = cls(host="127.0.0.1", port=0, dashboard_address=str(path))
        async with scheduler:
            assert len(ports()) == before + 1
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert (await page(path)).endswith(b"ok")
            # Clients are told of the forward.
            assert scheduler.identity()["services"] == {"dashboard": 8787}
        assert len(ports()) == before


def test_a_workers_pages_are_nowhere() -> None:
    def look(dask_worker: Any) -> tuple[int, dict[str, int]]:
        # In a process of its own, which knows nothing of this file.
        import os

        import psutil

        found = [each for each in psutil.net_connections("tcp") if each.pid == os.getpid()]
        return sum(each.status == "LISTEN" for each in found), dask_worker.service_ports

    # A class may name what its processes load itself, as dask_cuda's does.
    wanted = {"worker_dashboard_address": "127.0.0.1:0", "preload": ["json"]}
    with (
        dask.config.set({"distributed.worker.http.routes": [WORKER_ROUTES]}),
        LocalCluster(n_workers=1, dashboard_address="127.0.0.1:0", **wanted) as cluster,
        Client(cluster) as client,
    ):
        ((found, services),) = client.run(look).values()
        # Dask's own, for comms.
        assert found == 1
        assert "dashboard" not in services
        assert client.submit(len, "abc").result(HANG_SECONDS) == 3
