"""Opening and leaving a cluster object: closing, stopping, forking, and the end of the process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import weakref
from collections.abc import Awaitable, Callable

from distributed.core import Status

from terradask._dask.health import Health
from terradask._dask.provision import Provisioned, Provisioner
from terradask._dask.request import Request
from terradask._dask.rollback import end_cluster
from terradask._dask.threads import Threads

logger = logging.getLogger("terradask")

#: Leaves the cluster without ending it.
Disconnect = Callable[[], Awaitable[None]]


class Lifecycle:
    """Opens the cluster of one object, and ends it if it is to end."""

    def __init__(
        self,
        request: Request,
        provisioner: Provisioner,
        health: Health,
        threads: Threads,
        *,
        on_exit: Callable[[], None],
    ) -> None:
        self._request = request
        self._provisioner = provisioner
        self._health = health
        self._threads = threads
        self._on_exit = on_exit
        self._provisioned: Provisioned | None = None
        self._stops = False
        self.shutdown_on_close = bool(request.shutdown_on_close)

    # ---- opening ---------------------------------------------------------------------------------

    def provision(self) -> None:
        """Provision the cluster in this thread, which receives a Ctrl-C."""
        self._provisioned = self._provisioner.run()

    async def open(
        self, attach: Callable[[Provisioned], Awaitable[None]], disconnect: Disconnect
    ) -> None:
        """Provision the cluster, unless that was done, and attach to it; roll back on failure."""
        while self._health.status == Status.starting:
            await asyncio.sleep(0.01)
        if self._health.status == Status.running:
            return
        if self._health.status == Status.closed:
            raise ValueError("Cluster is closed")
        self._health.status = Status.starting
        try:
            if self._provisioned is None:
                self._provisioned = await self._provision_in_thread()
            if self._request.shutdown_on_close is None:
                self.shutdown_on_close = self._provisioned.origin != "attached"
            await attach(self._provisioned)
        except BaseException as error:
            # If it was closed while it waited for workers, `close` ends the cluster.
            if self._health.status not in (Status.closing, Status.closed):
                await self._fail(error, disconnect)
            raise

    def register(self) -> None:
        """Register the cluster to be left, or ended, when the process ends or forks."""
        _OPEN.add(self)

    async def _provision_in_thread(self) -> Provisioned:
        making = asyncio.ensure_future(self._threads.call(self._provisioner.run))
        try:
            found: Provisioned = await asyncio.shield(making)
        except asyncio.CancelledError:
            self._provisioner.cancel()
            with contextlib.suppress(Exception):
                self._provisioned = await making
            raise
        return found

    async def _fail(self, error: BaseException, disconnect: Disconnect) -> None:
        self._health.status = Status.failed
        try:
            try:
                await disconnect()
            except Exception:
                # This failure must neither hide the error nor prevent the rollback.
                logger.debug("cluster %s: can't disconnect", self._health.name, exc_info=True)
            self._health.status = Status.failed
            if self._provisioned is not None:
                await self._threads.call(self._provisioner.roll_back_after, error)
        finally:
            self._health.status = Status.closed
            self._threads.shutdown()

    def give_up(self, error: BaseException) -> None:
        """Roll back in the caller's thread, which gets a Ctrl-C while the loop's thread waits."""
        try:
            if self._provisioned is not None:
                self._provisioner.roll_back_after(error)
        finally:
            self._health.status = Status.closed
            self._threads.shutdown()

    # ---- leaving ---------------------------------------------------------------------------------

    def shutdown(self) -> None:
        """End the cluster regardless of `shutdown_on_close`, and leave it.

        A cluster that was made here is destroyed; any other is stopped and stays deployed.

        Raises
        ------
        ClusterClosed
            When this object has left the cluster before, without ending it.
        """
        if (
            self._health.status == Status.closed
            and self._provisioned is not None
            and not self.shutdown_on_close
        ):
            raise self._health.closed(
                f"end it from a new one: Cluster.from_name({self._health.name!r}).shutdown()"
            )
        self.shutdown_on_close = True

    def stop(self) -> None:
        """Stop the cluster, and leave it: groups at zero, keys removed, the deployment kept, which
        costs only its secret.

        A cluster that was made here stays deployed too; ``Cluster(name)`` and ``terradask start``
        start it again, without Terraform and with new keys. One that is still being made is rolled
        back. This method doesn't wait for the instances to end.

        Raises
        ------
        ClusterClosed
            When this object has left the cluster.

        Notes
        -----
        Needs what ``terradask stop`` needs: ``autoscaling:DescribeAutoScalingGroups``,
        ``SetDesiredCapacity``, ``SetInstanceProtection``, ``BatchDeleteScheduledAction``,
        ``secretsmanager:PutSecretValue``, and writing and deleting the cluster's objects.
        """
        self._health.check_open()
        self._stops = True
        self.shutdown_on_close = True

    async def close(self, disconnect: Disconnect) -> None:
        """Leave the cluster, and end it if `shutdown_on_close` is True.

        Ending destroys a cluster that was made here, and stops any other. One that is still being
        made is rolled back.

        Parameters
        ----------
        timeout
            Longest wait, in seconds. By default there is no limit.
        """
        if self._health.status == Status.starting:
            self._provisioner.cancel()
        while self._health.status in (Status.starting, Status.failed, Status.closing):
            await asyncio.sleep(0.05)
        if self._health.status in (Status.closed, Status.created):
            self._health.status = Status.closed
            return
        ends = bool(self.shutdown_on_close)
        _OPEN.discard(self)
        self._health.status = Status.closing
        try:
            if ends and self._provisioned is not None:
                await self._threads.call(self._end, self._provisioned)
        finally:
            try:
                await disconnect()
            finally:
                self._health.status = Status.closed
                self._threads.shutdown()

    def _end(self, provisioned: Provisioned) -> None:
        if not _has_run_on(provisioned):
            return
        if self._stops:
            provisioned.deployment.stop()
        else:
            end_cluster(provisioned.workspace, provisioned.deployment, provisioned.origin)

    def end_at_exit(self) -> None:
        """Bring the cluster to zero as the process ends; a later command finishes."""
        provisioned = self._provisioned
        if provisioned is None or self._health.status == Status.closed:
            return
        # Failures no longer matter while the process ends.
        with contextlib.suppress(Exception):
            self._on_exit()
        if not self.shutdown_on_close or not _has_run_on(provisioned):
            return
        if provisioned.origin == "created":
            provisioned.deployment.mark_closing()
        else:
            provisioned.deployment.stop()

    def disown(self) -> None:
        """Leave the cluster to the parent process: a forked child must not end it."""
        self._health.disown()


_OPEN: weakref.WeakSet[Lifecycle] = weakref.WeakSet()


def _has_run_on(provisioned: Provisioned) -> bool:
    """Return whether the cluster has not been started again after this client's run."""
    current = provisioned.deployment.current_run()
    return current is None or current.run_id == provisioned.attachment.run.run_id


def disown_open_clusters() -> None:
    """Leave all clusters of this forked process to its parent."""
    for each in list(_OPEN):
        each.disown()
    _OPEN.clear()


def end_open_clusters() -> None:
    """End the clusters of this process, which is ending."""
    for each in list(_OPEN):
        with contextlib.suppress(Exception):
            each.end_at_exit()
        each.shutdown_on_close = False
