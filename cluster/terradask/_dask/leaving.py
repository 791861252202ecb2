"""Leaving a cluster: closed, stopped, shut down, forked, or left to the end of the process; and what can't be done from then on."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

from distributed.core import Status
from distributed.deploy.cluster import Cluster as DaskCluster

from terradask._dask.dashboard import DashboardForward
from terradask._dask.provision import Provisioned, Provisioner, Request
from terradask._dask.rollback import end_cluster
from terradask._dask.secrets import ConfidingCluster
from terradask._deployments.deployment import Deployment
from terradask._deployments.documents import Run
from terradask._deployments.endpoint import Endpoint
from terradask.errors import ClusterClosed, InvalidInput


class LeavingCluster(ConfidingCluster):
    """A `ConfidingCluster` that is left, or ended, when it closes. A subclass makes or finds it."""

    _open: ClassVar[weakref.WeakSet[LeavingCluster]] = weakref.WeakSet()
    _is_of_parent = False

    status: Status
    shutdown_on_close: bool
    _request: Request
    _provisioner: Provisioner
    _provisioned: Provisioned | None
    _dashboard: DashboardForward | None
    _door: Endpoint
    _pool: ThreadPoolExecutor
    #: What ends it, where it is to be ended.
    _ending: Callable[[Provisioned], None]

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
        Needs what ``terradask stop`` needs: ``autoscaling:DescribeAutoScalingGroups``, ``SetDesiredCapacity``, ``SetInstanceProtection``,
        ``BatchDeleteScheduledAction``, ``secretsmanager:PutSecretValue``, and to write and delete the cluster's objects.
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


def end_as_it_began(provisioned: Provisioned) -> None:
    end_cluster(provisioned.workspace, provisioned.deployment, provisioned.origin)


def _stop(provisioned: Provisioned) -> None:
    provisioned.deployment.stop()


def _disown_in_child() -> None:
    """Let a forked process know that the clusters are its parent's: it has no loop that could talk to them, and must not end them."""
    for cluster in list(LeavingCluster._open):
        cluster._is_of_parent = True
        cluster.status = Status.closed
    LeavingCluster._open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_in_child)


@atexit.register
def _end_open_clusters() -> None:
    # Registered after Dask's own hook, and so called before it, which would run Terraform with ten seconds to go.
    for cluster in list(LeavingCluster._open):
        with contextlib.suppress(Exception):
            cluster._end_at_exit()
        cluster.shutdown_on_close = False
