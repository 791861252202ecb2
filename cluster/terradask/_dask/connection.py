"""Keeping the connection over which the scheduler tells of its workers: after a laptop has slept, a network was cut, a scheduler died."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from distributed.core import Status
from distributed.objects import SchedulerInfo

from terradask._dask.mirrored_cluster import MirroredCluster
from terradask._deployments.attach import Attachment
from terradask.errors import ClusterError, ClusterStopped, SchedulerReplaced, SchedulerUnreachable

logger = logging.getLogger("terradask")

#: So long a scheduler is looked for before whoever uses the cluster is told; it is looked for on and on.
LOST_SECONDS = 30.0

_PAUSE_SECONDS = 5.0
_STATUS_POLL_SECONDS = 0.2


class WatchedCluster(MirroredCluster):
    """A `MirroredCluster` that subscribes again when its connection to the scheduler breaks.

    Dask leaves it at that: what the cluster knows of its workers would be frozen for good.
    """

    #: The scheduler doesn't answer, as long as that is so.
    _unreachable: SchedulerUnreachable | None = None

    async def _reach_again(self, seconds: float) -> Attachment:
        """Find the run's scheduler; a subclass knows where to look."""
        raise AttributeError("a subclass does it")

    @property
    def _boot(self) -> int:
        """Number of the scheduler that this object talks to, which counts up with each that comes up in a run; a subclass knows."""
        raise AttributeError("a subclass says which")

    async def _hand_over(self, attachment: Attachment) -> None:
        """Give a scheduler that is in the other's place what that had been given; a subclass knows of any."""

    def _check_usable(self) -> None:
        super()._check_usable()
        if self._unreachable is not None:
            raise self._unreachable.with_traceback(None)

    async def _watch_worker_status(self, comm: Any) -> None:
        while True:
            await super()._watch_worker_status(comm)
            if self.status != Status.running:
                return
            logger.info("cluster %s: the connection to its scheduler is lost", self.name)
            again = await self._while_running(self._subscribe_again())
            if again is None:
                return
            if self.status != Status.running:
                # Closed in between: nobody else knows of this connection, and whoever closes waits for this to end.
                await again.close()
                return
            logger.info("cluster %s: connected to its scheduler again", self.name)
            comm = self._watch_worker_status_comm = again

    async def _while_running(self, work: Any) -> Any:
        """Return the result of `work`; None where the cluster is closed meanwhile."""
        task = asyncio.ensure_future(work)
        while self.status == Status.running:
            if (await asyncio.wait({task}, timeout=_STATUS_POLL_SECONDS))[0]:
                return task.result()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return None

    async def _subscribe_again(self) -> Any:
        """Return a new connection to the same scheduler; None where that one is gone for good, or the cluster is closed."""
        # A cancellation may get lost in a connection that fails at the same moment: whoever closes waits for this to end.
        while self.status == Status.running:
            try:
                attachment = await self._reach_again(LOST_SECONDS)
                known = self.scheduler_info.get("id")
                comm = await self._subscribe() if attachment.scheduler.boot == self._boot else None
                # A new process listens before its host says so.
                if comm is None or self.scheduler_info.get("id") != known:
                    if comm is not None:
                        await comm.close()
                    self._lose_for_good(_replaced(attachment))
                    return await self._hand_over(attachment)
            except ClusterStopped as error:
                return self._lose_for_good(error)
            except SchedulerUnreachable as error:
                if self._unreachable is None:
                    logger.warning("cluster %s: %s", self.name, error.problem)
                self._unreachable = error
            except Exception:
                # Whatever is in the way, such as a bucket that can't be asked from a machine without a network, may pass.
                logger.debug("cluster %s: can't look for its scheduler", self.name, exc_info=True)
            else:
                self._unreachable = None
                return comm
            await asyncio.sleep(_PAUSE_SECONDS)
        return None

    async def _subscribe(self) -> Any:
        comm = await self.scheduler_comm.live_comm()
        comm.name = "Cluster worker status"
        await comm.write({"op": "subscribe_worker_status"})
        self.scheduler_info = SchedulerInfo(await comm.read())
        return comm

    def _lose_for_good(self, error: ClusterError) -> None:
        if self._over is None:
            self._over = error
            logger.warning("cluster %s: %s", self.name, error)
        # What the old scheduler knew is gone with it.
        self.scheduler_info = SchedulerInfo({"workers": {}})
        if self._adaptive is not None:
            self._adaptive.stop()


def _replaced(attachment: Attachment) -> SchedulerReplaced:
    name = attachment.descriptor.cluster
    return SchedulerReplaced(
        f"The scheduler of cluster {name!r} died and was replaced: the tasks and results that it knew are gone.",
        cluster=name,
        given=f"the scheduler is now on instance {attachment.scheduler.instance_id}, boot {attachment.scheduler.boot}",
        advice=f"attach to the new one and submit the work again: Cluster(name={name!r})",
    )
