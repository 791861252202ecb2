"""The connection to a cluster's scheduler: kept after a laptop has slept, a network was cut, a scheduler died."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from distributed.comm import Comm
from distributed.core import rpc
from distributed.objects import SchedulerInfo

from terradask._dask.dial import Dialer
from terradask._dask.health import Health, RunCheck
from terradask._dask.joined import JoinedWorkers
from terradask._deployments.attach import Attachment
from terradask._deployments.lifetime import Duration, parse_duration
from terradask.errors import ClusterStopped, SchedulerReplaced, SchedulerUnreachable, VersionMismatch

logger = logging.getLogger("terradask")

#: So long a scheduler is looked for before using the cluster raises; it is looked for on and on.
LOST_SECONDS = 30.0

_STATUS_POLL_SECONDS = 0.2


class SchedulerConnection:
    """What a client has of one scheduler: calls, and what that tells of its workers."""

    def __init__(
        self,
        dialer: Dialer,
        attachment: Attachment,
        scheduler: rpc,
        *,
        health: Health,
        joined: JoinedWorkers,
        run: RunCheck,
        pause_seconds: float = 5.0,
    ) -> None:
        self._dialer = dialer
        self.attachment = attachment
        self.scheduler = scheduler
        self._health = health
        self._joined = joined
        self._run = run
        self._pause_seconds = pause_seconds

    # ---- watching ---------------------------------------------------------------------------------------------------

    async def subscriptions(self, first: Comm, *, on_replaced: Callable[[Attachment], Awaitable[None]]) -> AsyncIterator[Comm]:
        """Yield the connection over which the scheduler tells of its workers, and another one each time that it is lost.

        Dask leaves it at the first: what the cluster knows of its workers would be frozen for good.
        """
        comm: Comm | None = first
        while comm is not None:
            yield comm
            comm = await self._after_loss(on_replaced)

    async def _after_loss(self, on_replaced: Callable[[Attachment], Awaitable[None]]) -> Comm | None:
        if not self._health.is_running:
            return None
        logger.info("cluster %s: the connection to its scheduler is lost", self._health.name)
        again = await self._while_running(self._subscribe_again(on_replaced))
        if again is not None and not self._health.is_running:
            # Closed in between: nothing else knows of this connection, and closing waits for this to end.
            await again.close()
            return None
        if again is not None:
            logger.info("cluster %s: connected to its scheduler again", self._health.name)
        return again

    async def _while_running(self, work: Any) -> Any:
        """Return the result of `work`; None where the cluster is closed meanwhile."""
        task = asyncio.ensure_future(work)
        while self._health.is_running:
            if (await asyncio.wait({task}, timeout=_STATUS_POLL_SECONDS))[0]:
                return task.result()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return None

    async def _subscribe_again(self, on_replaced: Callable[[Attachment], Awaitable[None]]) -> Comm | None:
        """Return a new connection to the same scheduler; None where that one is gone for good, or the cluster is closed."""
        # A cancellation may get lost in a connection that fails at the same moment: closing waits for this to end.
        while self._health.is_running:
            try:
                attachment = await self._reach_again()
                known = self._joined.scheduler_id
                comm = await self._subscribe() if attachment.scheduler.boot == self.attachment.scheduler.boot else None
                # A new process listens before its host says so.
                if comm is None or self._joined.scheduler_id != known:
                    if comm is not None:
                        await comm.close()
                    self._joined.forget()
                    self._health.lose(_replaced(attachment))
                    await on_replaced(attachment)
                    return None
            except ClusterStopped as error:
                self._joined.forget()
                self._health.lose(error)
                return None
            except SchedulerUnreachable as error:
                if self._health.unreachable is None:
                    logger.warning("cluster %s: %s", self._health.name, error.problem)
                self._health.unreachable = error
            except Exception:
                # Whatever is in the way, such as a bucket that can't be asked from a machine without a network, may pass.
                logger.debug("cluster %s: can't look for its scheduler", self._health.name, exc_info=True)
            else:
                self._health.unreachable = None
                return comm
            await asyncio.sleep(self._pause_seconds)
        return None

    async def _reach_again(self) -> Attachment:
        attachment, comm = await self._dialer.reach(self.attachment, LOST_SECONDS)
        await comm.close()
        return attachment

    async def _subscribe(self) -> Comm:
        comm = await self.scheduler.live_comm()
        comm.name = "Cluster worker status"
        await comm.write({"op": "subscribe_worker_status"})
        self._joined.scheduler_info = SchedulerInfo(await comm.read())
        return comm

    # ---- calls ------------------------------------------------------------------------------------------------------

    async def set_keepalive(self, keepalive: Duration | None) -> None:
        """Set how long the cluster goes on when nobody is connected any more, from now on, in place of `no_client_timeout`.

        Clients and `Cluster` objects count as connected, in any process; so does what `fire_and_forget` left to be done. The idle timeout
        holds besides.

        Parameters
        ----------
        keepalive
            A duration such as ``"30s"`` or ``"5m"``, or seconds. None or False: it doesn't end for that.

        Raises
        ------
        InvalidInput
            When it is no duration, or not greater than zero.
        ClusterEnded, ClusterStopped
            When the cluster doesn't run any more.
        VersionMismatch
            When its hosts are of a terradask that knows no keepalive.
        """
        await self.ask("terradask_keepalive", "keepalive", seconds=parse_duration("keepalive", keepalive) or None)

    async def ask(self, operation: str, what: str, **arguments: Any) -> Any:
        """Return the scheduler's answer to an operation of terradask's own.

        Raises
        ------
        ClusterClosed, ClusterEnded, ClusterStopped
            When there is no scheduler to answer any more.
        VersionMismatch
            When the scheduler doesn't know the operation.
        """
        async with self.saying_why_it_ended():
            answer = await getattr(self.scheduler, operation)(**arguments)
        if not answer:
            # A scheduler answers None to what it doesn't know.
            name = self._health.name
            raise VersionMismatch(
                f"The hosts of cluster {name!r} are of an older terradask, which knows no {what}.",
                cluster=name,
                advice="terradask apply network, then stop and start the cluster",
            )
        return answer

    @asynccontextmanager
    async def saying_why_it_ended(self) -> AsyncIterator[None]:
        """Call the scheduler inside: where it doesn't answer, and that is because the cluster is over, that is the error."""
        self._health.check()
        try:
            yield
        except OSError:
            await self._run.note_if_over()
            self._health.check()
            raise

    async def scheduler_of(self, attachment: Attachment) -> rpc:
        """Return a new connection to the scheduler that has replaced this one."""
        return await self._dialer.scheduler_of(attachment)


def _replaced(attachment: Attachment) -> SchedulerReplaced:
    name = attachment.descriptor.cluster
    return SchedulerReplaced(
        f"The scheduler of cluster {name!r} died and was replaced: the tasks and results that it knew are gone.",
        cluster=name,
        given=f"the scheduler is now on instance {attachment.scheduler.instance_id}, boot {attachment.scheduler.boot}",
        advice=f"attach to the new one and submit the work again: Cluster(name={name!r})",
    )
