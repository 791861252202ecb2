"""From a request to an attached cluster and away again: what happens when a cluster is constructed, started, attached to and closed."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import os
import weakref
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

from distributed.comm import Comm
from distributed.core import Status, rpc
from distributed.deploy.cluster import Cluster as DaskCluster

from terradask._progress import Message, Progress, ProgressEvent, silent
from terradask._runtime.attachment import Attachment
from terradask._runtime.confiding_cluster import ConfidingCluster
from terradask._runtime.dashboard import DashboardForward
from terradask._runtime.deployment import Deployment
from terradask._runtime.dial import REACH_SECONDS, newest, reach, unreachable
from terradask._runtime.documents import Run
from terradask._runtime.door import AddressDoor, Door, door_for, way_of
from terradask._runtime.provision import Provisioned, Provisioner, Request, addresses_let_in
from terradask._runtime.remote import RemoteScheduler, RemoteWorker
from terradask._runtime.scaling import workers_to_wait_for
from terradask._runtime.shown_numbers import by_group
from terradask._runtime.sigterm import terminated_in_order
from terradask._runtime.undo import end_cluster
from terradask._runtime.widget import shown_in_notebook
from terradask.errors import ClusterClosed, InvalidInput
from terradask_modules.names import WORKER_GROUP
from terradask_stacks.numbers import NWorkers, bounds_of

logger = logging.getLogger("terradask")

ADAPTIVE_MINIMUM = 4
ADAPTIVE_MAXIMUM = 20


class ProvisionedCluster(ConfidingCluster):
    """A `ConfidingCluster` that is found or made before it is attached to, and is left or ended when it closes.

    Parameters
    ----------
    request
        What is wanted.
    asynchronous, loop, shutdown_on_close, show_widget, progress
        As of `Cluster`.
    """

    _open: ClassVar[weakref.WeakSet[ProvisionedCluster]] = weakref.WeakSet()
    _is_of_parent = False

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
        self._door: Door = AddressDoor("public")
        self._pool = ThreadPoolExecutor(4, thread_name_prefix="terradask")
        self._provisioner = Provisioner(request, self._tell)
        self._ending: Callable[[Provisioned], None] = _end_as_it_began
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
        self._door = door_for(way_of(settings), provisioned.workspace.aws)
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

    @property
    def _deployed(self) -> Provisioned:
        if self._provisioned is None:
            raise InvalidInput(f"Cluster {self._request.name!r} is not running yet.", advice="await it, or use it in `async with`")
        return self._provisioned

    @property
    def _deployment(self) -> Deployment:
        return self._deployed.deployment

    @property
    def _current_run(self) -> Run:
        return self._deployed.attachment.run

    # ---- closing --------------------------------------------------------------------------------------------------

    def close(self, timeout: float | None = None) -> Any:
        """Leave the cluster, and end it where `shutdown_on_close` says so.

        A cluster that was made here is destroyed; one that was deployed before and started here is stopped; one that was attached to goes
        on. One that is still being made is taken back.

        Parameters
        ----------
        timeout
            Longest wait, in seconds. By default there is no limit.
        """
        return super().close(timeout)

    def shutdown(self) -> Any:
        """End the cluster, whatever `shutdown_on_close` says, and leave it.

        A cluster that was made here is destroyed; any other is stopped and stays deployed.

        Raises
        ------
        ClusterClosed
            When this object has left the cluster before, without ending it.
        """
        if self.status == Status.closed and self._provisioned is not None and not self.shutdown_on_close:
            raise self._closed_error(f"end it from a new one: Cluster.from_name({self._request.name!r}).shutdown()")
        self.shutdown_on_close = True
        return self.close()

    def stop(self) -> Any:
        """Stop the cluster, and leave it: its groups at zero, its keys gone, the deployment kept, which costs only its secret.

        One that was made here stays deployed too; ``Cluster(name)`` and ``terradask start`` start it again, without Terraform and with new
        keys. One that is still being made is taken back. The groups' instances end within AWS's time, which is not waited for.

        Raises
        ------
        ClusterClosed
            When this object has left the cluster.

        Notes
        -----
        Needs what ``terradask stop`` needs: ``autoscaling:UpdateAutoScalingGroup``, ``secretsmanager:PutSecretValue``, and to write and
        delete the cluster's objects.
        """
        self._check_open()
        self._ending = _stop
        self.shutdown_on_close = True
        return self.close()

    async def _close(self) -> None:
        if self.status == Status.starting:
            self._provisioner.cancel()
        while self.status in (Status.starting, Status.failed, Status.closing):
            await asyncio.sleep(0.05)
        if self.status in (Status.closed, Status.created):
            self.status = Status.closed
            return
        ends = bool(self.shutdown_on_close)
        self._open.discard(self)
        provisioned = self._provisioned
        self.status = Status.closing
        try:
            if ends and provisioned is not None and await self._call(self._is_ours_to_end):
                await self._call(self._ending, provisioned)
        finally:
            try:
                await self._disconnect()
            finally:
                self.status = Status.closed
                self._pool.shutdown(wait=False)

    def _is_ours_to_end(self) -> bool:
        """Whether nobody has started the cluster anew after the run of this client was over."""
        current = self._deployment.current_run()
        return current is None or current.run_id == self._run_id

    async def _disconnect(self) -> None:
        try:
            await self._stop_watching()
            if self._dashboard is not None:
                await self._dashboard.close()
            if self.scheduler is not None:
                await self.scheduler.close()
            self.status = Status.closing
            await DaskCluster._close(self)
        finally:
            await self._call(self._door.close)

    def _end_at_exit(self) -> None:
        """Bring a cluster of this process to zero in the seconds that are left; the next command finishes."""
        provisioned = self._provisioned
        if provisioned is None or self.status == Status.closed:
            return
        # Nobody is to wonder about what goes away now.
        with contextlib.suppress(Exception):
            self.loop.add_callback(self._stop_watching)
        if not self.shutdown_on_close or not self._is_ours_to_end():
            return
        if provisioned.origin == "created":
            provisioned.deployment.mark_closing()
        else:
            provisioned.deployment.stop()

    def _check_usable(self) -> None:
        self._check_open()
        super()._check_usable()

    def _check_open(self) -> None:
        name = self._request.name
        if self._is_of_parent:
            raise ClusterClosed(
                f"This Cluster object of {name!r} belongs to the process that forked this one.",
                cluster=name,
                advice=f"attach from here: Cluster.from_name({name!r})",
            )
        if self.status in (Status.closing, Status.closed, Status.failed):
            raise self._closed_error(f"make another: Cluster(name={name!r})")

    def _closed_error(self, advice: str) -> ClusterClosed:
        return ClusterClosed(f"This Cluster object of {self._request.name!r} is closed.", cluster=self._request.name, advice=advice)

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


def _end_as_it_began(provisioned: Provisioned) -> None:
    end_cluster(provisioned.workspace, provisioned.deployment, provisioned.origin)


def _stop(provisioned: Provisioned) -> None:
    provisioned.deployment.stop()


def _disown_in_child() -> None:
    """Let a forked process know that the clusters are its parent's: it has no loop that could talk to them, and must not end them."""
    for cluster in list(ProvisionedCluster._open):
        cluster._is_of_parent = True
        cluster.status = Status.closed
    ProvisionedCluster._open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_in_child)


@atexit.register
def _end_open_clusters() -> None:
    # Registered after Dask's own hook, and so called before it, which would run Terraform with ten seconds to go.
    for cluster in list(ProvisionedCluster._open):
        with contextlib.suppress(Exception):
            cluster._end_at_exit()
        cluster.shutdown_on_close = False
