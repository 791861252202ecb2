"""Serve a cluster's dashboard or notebook server without a Dask connection, since Dask's protocol
can run the code of tasks in the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Self

from terradask._common.progress import Progress
from terradask._dask.arguments import ClusterArguments
from terradask._dask.dashboard import DashboardForward, JupyterForward, SharedDashboard
from terradask._dask.dial import REACH_SECONDS, dialer_for, newest
from terradask._dask.provision import Provisioned, Provisioner
from terradask._dask.request import read_request
from terradask._dask.threads import Threads
from terradask.errors import EndpointUnreachable


def running_cluster(name: str, progress: Progress) -> Provisioned:
    """Attach to a running cluster, with its keys.

    Raises `ClusterNotFound`, `ClusterStopped`, `ClusterPrivate`, `HostFailed`.
    """
    return Provisioner(read_request(ClusterArguments(name, attach=True)), progress).run()


@dataclass(eq=False, repr=False)
class StandaloneDashboard:
    """Serve the dashboard of a running cluster, or with `jupyter` its notebook server, inside a
    ``with`` block.
    """

    running: Provisioned
    _: KW_ONLY
    jupyter: bool = False
    reach_seconds: float = REACH_SECONDS
    pause_seconds: float = 2.0
    poll_interval_seconds: float = 5.0

    def __post_init__(self) -> None:
        self._attachment = self.running.attachment
        self._threads = Threads()
        self._dialer = dialer_for(self.running, self._threads.call)
        self._forward = DashboardForward(self._find, self._dialer.connection_args["ssl_context"])
        self._served = (
            JupyterForward(self._find, self._dialer.connection_args["ssl_context"])
            if self.jupyter
            else self._forward
        )

    @property
    def link(self) -> str:
        """The link, while it is served."""
        return self._served.link

    async def __aenter__(self) -> Self:
        try:
            await self._reach()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._served.close()
        await self._dialer.close()
        self._threads.shutdown()

    async def shared(self) -> SharedDashboard | None:
        """Return the dashboard over HTTPS, or None without it. Raises `VersionMismatch`."""
        if not self.running.settings.use_dashboard_https:
            return None
        public = self._dialer.route == "public"
        return await self._forward.shared(self._attachment, public=public)

    async def request_report(self) -> str | None:
        """Have the cluster store its performance report; return the reason of a failure, or
        None.
        """
        return await self._forward.request_report(self.running.deployment.name)

    async def serve(self) -> None:
        """Serve the link; `watch` finds a replacement scheduler."""
        await self._served.start()

    async def watch(self, warn: Callable[[str], None]) -> None:
        """Follow the cluster until it is over. Raises `ClusterStopped`."""
        is_cut_off = False
        while True:
            await asyncio.sleep(self.poll_interval_seconds)
            try:
                await self._refresh()
                is_cut_off = False
            except EndpointUnreachable as error:
                # For example after a suspend.
                if not is_cut_off:
                    warn(f"{error.problem} Trying again")
                is_cut_off = True

    async def _find(self) -> tuple[str, int]:
        return await self._dialer.dashboard(self._attachment)

    async def _reach(self) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.reach_seconds
        while True:
            try:
                return await self._forward.check()
            except OSError as error:
                if loop.time() >= deadline:
                    host, port = await self._find()
                    address = f"{host}:{port}"
                    raise await self._dialer.unreachable(self._attachment, address) from error
            await asyncio.sleep(self.pause_seconds)
            await self._refresh()

    async def _refresh(self) -> None:
        self._attachment = await self._threads.call(
            newest, self._attachment, self.running.deployment
        )
