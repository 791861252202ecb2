"""From a request to an attached cluster: what happens when a cluster is constructed, started and attached to."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, Self

from distributed.comm import Comm
from distributed.core import Status, rpc
from distributed.deploy.cluster import Cluster as DaskCluster

from terradask._common.progress import Message, Progress, ProgressEvent, silent
from terradask._common.sigterm import terminated_in_order
from terradask._dask.dashboard import DashboardForward
from terradask._dask.dial import REACH_SECONDS, newest, reach, unreachable
from terradask._dask.display import by_group
from terradask._dask.leaving import LeavingCluster, end_as_it_began
from terradask._dask.notebook import shown_in_notebook
from terradask._dask.provision import Provisioned, Provisioner, Request, addresses_let_in
from terradask._dask.remote import RemoteScheduler, RemoteWorker
from terradask._dask.scaling import workers_to_wait_for
from terradask._deployments.attach import Attachment
from terradask._deployments.endpoint import AddressEndpoint, Endpoint, endpoint_for, route_of
from terradask_modules.names import WORKER_GROUP
from terradask_stacks.numbers import NWorkers, bounds_of

logger = logging.getLogger("terradask")

ADAPTIVE_MINIMUM = 4
ADAPTIVE_MAXIMUM = 20


class ProvisionedCluster(LeavingCluster):
    """A `LeavingCluster` that is found or made before it is attached to.

    Parameters
    ----------
    request
        What is wanted.
    asynchronous, loop, shutdown_on_close, show_widget, progress
        As of `Cluster`.
    """

    def __init__(
        self,
        request: Request,
        *,
        asynchronous: bool,
        loop: Any,
        shutdown_on_close: bool | None,
        show_widget: bool,
        progress: Progress | None,
    ) -> None:
        self._request = request
        self._credentials_duration_seconds = request.credentials_duration_seconds
        self._wants_shutdown_on_close = shutdown_on_close
        self._progress_to = progress
        self._show: Progress = silent
        self._provisioned: Provisioned | None = None
        self._dashboard: DashboardForward | None = None
        self._door: Endpoint = AddressEndpoint("public")
        self._pool = ThreadPoolExecutor(4, thread_name_prefix="terradask")
        self._provisioner = Provisioner(request, self._tell)
        self._ending = end_as_it_began
        with terminated_in_order(), shown_in_notebook(show_widget and not asynchronous) as self._show:
            if not asynchronous:
                self._provisioned = self._provisioner.run()
            try:
                super().__init__(
                    worker={"cls": RemoteWorker},
                    asynchronous=asynchronous,
                    loop=loop,
                    name=request.name,
                    shutdown_on_close=bool(shutdown_on_close),
                )
            except BaseException as error:
                self._give_up(error)
                raise

    def _give_up(self, error: BaseException) -> None:
        """End what was made, in the caller's thread: a Ctrl-C arrives here while the loop's thread waits."""
        try:
            if self._provisioned is not None:
                self._provisioner.undo_after(error)
        finally:
            self.status = Status.closed
            # SpecCluster may have failed before it had a loop.
            if hasattr(self, "_loop_runner") and not self.asynchronous:
                self._loop_runner.stop()
            self._pool.shutdown(wait=False)

    # ---- starting -------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        while self.status == Status.starting:
            await asyncio.sleep(0.01)
        if self.status == Status.running:
            return
        if self.status == Status.closed:
            raise ValueError("Cluster is closed")
        self._lock = asyncio.Lock()
        self.status = Status.starting
        try:
            if self._provisioned is None:
                self._provisioned = await self._provision_in_thread()
            await self._attach(self._provisioned)
        except BaseException as error:
            # Closed while it waited for workers: whoever closes it also ends it.
            if self.status not in (Status.closing, Status.closed):
                await self._fail(error)
            raise

    async def _provision_in_thread(self) -> Provisioned:
        making = asyncio.ensure_future(self._call(self._provisioner.run))
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            self._provisioner.cancel()
            with contextlib.suppress(Exception):
                self._provisioned = await making
            raise

    async def _fail(self, error: BaseException) -> None:
        self.status = Status.failed
        try:
            try:
                await self._disconnect()
            except Exception:
                # It must neither hide the error nor keep what was made from being taken back.
                logger.debug("cluster %s: can't disconnect", self._request.name, exc_info=True)
            self.status = Status.failed
            if self._provisioned is not None:
                await self._call(self._provisioner.undo_after, error)
        finally:
            self.status = Status.closed
            self._pool.shutdown(wait=False)

    def __await__(self) -> Generator[Any, Any, Self]:
        async def ready() -> Self:
            if self.status == Status.created:
                await self._start()
            if self.status == Status.running:
                await self._correct_state()
            return self

        return ready().__await__()

    async def __aenter__(self) -> Self:
        return await self

    # ---- attaching ------------------------------------------------------------------------------------------------

    async def _attach(self, provisioned: Provisioned) -> None:
        settings = provisioned.settings
        if self._wants_shutdown_on_close is None:
            self.shutdown_on_close = provisioned.origin != "attached"
        self.security = provisioned.attachment.keys.client_security()
        self._door = endpoint_for(route_of(settings), provisioned.workspace.aws)
        attachment, comm = await self._reach(REACH_SECONDS)
        self._provisioned = replace(provisioned, attachment=attachment)
        connection = self.security.get_connection_args("client")
        address = comm.peer_address
        self.scheduler = RemoteScheduler(address)
        self.scheduler_comm = rpc(address, connection_args=connection)
        # The connection that was made to see whether it answers is the first of those that are kept.
        self.scheduler_comm.comms[comm] = True
        try:
            await DaskCluster._start(self)
        except OSError as error:
            # It answered a moment ago.
            await self._call(newest, attachment, provisioned.deployment)
            let_in = await self._call(addresses_let_in, provisioned.workspace)
            raise unreachable(attachment, address, way=self._door.way, let_in=let_in) from error
        self._open.add(self)
        host, port = await self._call(self._door.dashboard, attachment)
        self._dashboard = DashboardForward(host, port, connection["ssl_context"])
        await self._dashboard.start()
        await self._start_watching()
        if self._request.credentials == "local":
            await self._send_first_credentials()
        if provisioned.origin != "attached":
            n = workers_to_wait_for(len(self.plan), settings["wait_for_workers"])
            await self._wait_for_workers(n, timeout=settings["worker_timeout_seconds"], takes_fewer=True, on_wait=self._tell_joined)
            self._adapt_as_asked(settings.get("n_workers"))

    async def _reach_again(self, seconds: float) -> Attachment:
        attachment, comm = await self._reach(seconds)
        await comm.close()
        return attachment

    async def _reach(self, seconds: float) -> tuple[Attachment, Comm]:
        provisioned = self._deployed
        return await reach(
            provisioned.attachment,
            provisioned.deployment,
            self.security,
            self._call,
            door=self._door,
            let_in=partial(addresses_let_in, provisioned.workspace),
            seconds=seconds,
        )

    async def _scheduler_of(self, attachment: Attachment) -> rpc:
        address = await self._call(self._door.scheduler, attachment)
        return rpc(address, connection_args=self.security.get_connection_args("client"))

    @property
    def _boot(self) -> int:
        return self._deployed.attachment.scheduler.boot

    def _adapt_as_asked(self, n_workers: NWorkers) -> None:
        """Scale between the bounds that were given, and between the usual ones where nothing was; leave a number alone."""
        bounds = (ADAPTIVE_MINIMUM, ADAPTIVE_MAXIMUM) if n_workers is None else bounds_of(n_workers)
        if bounds is not None:
            most = self._deployed.attachment.descriptor.most_workers(WORKER_GROUP)
            self.adapt(minimum=min(bounds[0], most), maximum=min(bounds[1], most))

    # ---- telling --------------------------------------------------------------------------------------------------

    def _tell_joined(self, joined: int, wanted: int) -> None:
        each = by_group(self.worker_groups)
        groups = f" ({each})" if each else ""
        self._tell(Message(f"{self._request.name}: waiting for workers, {joined} of {wanted} have joined{groups}"))

    def _tell(self, event: ProgressEvent, /) -> None:
        logger.info("%s", event)
        self._show(event)
        if self._progress_to is not None:
            self._progress_to(event)
