"""Connect to a cluster's scheduler, and reconnect after a loss."""

from __future__ import annotations

import asyncio
import datetime
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

from distributed import Client
from distributed.comm import Comm
from distributed.core import rpc
from distributed.objects import SchedulerInfo

from terradask._clusters.lifetime import Duration, parse_duration
from terradask._dask import commands
from terradask._dask.threads import cancelled
from terradask.errors import (
    ClusterStopped,
    SchedulerReplaced,
    SchedulerUnreachable,
)
from terradask_host.commands import Command, SetKeepalive, ShowTaskOutput

if TYPE_CHECKING:
    from terradask._clusters.attach import Attachment
    from terradask._dask.dial import Dialer
    from terradask._dask.health import Health, RunCheck
    from terradask._dask.host_workers import JoinedWorkers
    from terradask_host.documents import SchedulerAddress

logger = logging.getLogger("terradask")

#: After this time without an answer, use of the cluster raises; the client keeps trying.
LOST_SECONDS = 30.0

#: A scheduler may be busy with one call, such as a large graph, and answer no other until then.
SILENT_SECONDS = 120.0

_STATUS_POLL_SECONDS = 0.2

#: Dask's own interval.
_PUBLISH_SECONDS = 1.0

#: Called with the attachment to a replacement scheduler.
OnReplaced = Callable[["Attachment"], Awaitable[None]]


@dataclass(eq=False, repr=False)
class SchedulerConnection:
    """A client's connection to one scheduler: calls, and updates about its workers."""

    dialer: Dialer
    attachment: Attachment
    scheduler: rpc
    _: KW_ONLY
    health: Health
    joined: JoinedWorkers
    run: RunCheck
    pause_seconds: float = 5.0
    silent_seconds: float = SILENT_SECONDS

    # ---- watching --------------------------------------------------------------------------------

    async def subscriptions(self, first: Comm, *, on_replaced: OnReplaced) -> AsyncIterator[Comm]:
        """Yield the connection over which the scheduler reports its workers, and a new one after
        each loss.

        Dask itself uses only the first one: after a loss, its view of the workers would never
        change again.
        """
        comm: Comm | None = first
        while comm is not None:
            yield comm
            comm = await self._after_loss(on_replaced)

    async def _after_loss(self, on_replaced: OnReplaced) -> Comm | None:
        if not self.health.is_running:
            return None
        logger.info("cluster %s: the connection to its scheduler is lost", self.health.name)
        again = await self._while_running(self._subscribe_again(on_replaced))
        if again is not None and not self.health.is_running:
            # Closed in between: only this method has the connection, and closing waits for it.
            await again.close()
            return None
        if again is not None:
            logger.info("cluster %s: connected to its scheduler again", self.health.name)
        return again

    async def _while_running(self, work: Any) -> Any:
        """Return the result of `work`; None if the cluster is closed before."""
        task = asyncio.ensure_future(work)
        while self.health.is_running:
            if (await asyncio.wait({task}, timeout=_STATUS_POLL_SECONDS))[0]:
                return task.result()
        await cancelled(task)
        return None

    async def _subscribe_again(self, on_replaced: OnReplaced) -> Comm | None:
        """Return a new connection to the same scheduler; None if it or the cluster is gone."""
        # A failing connection may swallow a cancellation, and closing waits for this loop.
        while self.health.is_running:
            try:
                attachment = await self._reach_again()
                known = self.joined.scheduler_id
                comm = await self._subscribe() if self._is_same(attachment.scheduler) else None
                # A new process listens before its host publishes it.
                if comm is None or self.joined.scheduler_id != known:
                    if comm is not None:
                        await comm.close()
                    self.joined.forget()
                    self.health.record_end(_replacement_error(attachment))
                    await on_replaced(attachment)
                    return None
            except ClusterStopped as error:
                self.joined.forget()
                self.health.record_end(error)
                return None
            except SchedulerUnreachable as error:
                if self.health.unreachable is None:
                    logger.warning("cluster %s: %s", self.health.name, error.problem)
                self.health.unreachable = error
            except Exception:
                # The cause may be temporary, such as a missing network.
                logger.debug(
                    "cluster %s: can't find its scheduler", self.health.name, exc_info=True
                )
            else:
                self.health.unreachable = None
                return comm
            await asyncio.sleep(self.pause_seconds)
        return None

    async def publish(self, metadata: Callable[[], dict[str, Any]]) -> None:
        """Send the scheduler the cluster object's metadata for clients, repeatedly, until the
        object is closed or the cluster has ended.

        Dask's own loop continues after the end, and logs a traceback.
        """
        while self.health.is_running and self.health.ended is None:
            try:
                update = self.scheduler.set_metadata(
                    keys=["cluster-manager-info"], value=metadata()
                )
                await self._await_answer(update)
            except Exception as error:  # noqa: BLE001  the worker subscription handles a loss
                logger.debug("cluster %s: can't publish metadata: %s", self.health.name, error)
                await asyncio.sleep(self.pause_seconds)
            await asyncio.sleep(_PUBLISH_SECONDS)

    async def _await_answer(self, call: Coroutine[Any, Any, Any]) -> None:
        """Await an answer. While a connected scheduler doesn't answer for too long, for example on
        a host that hangs, use of the cluster raises.
        """
        answer, since = asyncio.ensure_future(call), datetime.datetime.now(datetime.UTC)
        try:
            while not (await asyncio.wait({answer}, timeout=self.silent_seconds))[0]:
                try:
                    await self.run.note_if_over()
                except Exception:
                    logger.debug("cluster %s: can't read its run", self.health.name, exc_info=True)
                if self.health.ended is not None:
                    return
                if self.health.unreachable is None:
                    error = await self.dialer.unanswered(
                        self.attachment, self.scheduler.address, since
                    )
                    logger.warning("cluster %s: %s", self.health.name, error)
                    self.health.unreachable = error
            await answer
        finally:
            answer.cancel()
        if self.health.unreachable is not None:
            logger.info("cluster %s: its scheduler answers again", self.health.name)
            self.health.unreachable = None

    def _is_same(self, scheduler: SchedulerAddress) -> bool:
        ours = self.attachment.scheduler
        return (scheduler.boot, scheduler.instance_id) == (ours.boot, ours.instance_id)

    async def _reach_again(self) -> Attachment:
        attachment, comm = await self.dialer.reach(self.attachment, LOST_SECONDS)
        await comm.close()
        return attachment

    async def _subscribe(self) -> Comm:
        comm = await self.scheduler.live_comm()
        comm.name = "Cluster worker status"
        await comm.write({"op": "subscribe_worker_status"})
        self.joined.scheduler_info = SchedulerInfo(await comm.read())
        return comm

    # ---- calls -----------------------------------------------------------------------------------

    async def set_keepalive(self, keepalive: Duration | None) -> None:
        """Set how long the cluster runs without a connected client, instead of `no_client_timeout`.

        Clients and `Cluster` objects of any process count as connected, and so do unfinished
        `fire_and_forget` tasks. The idle timeout stays in force.

        Parameters
        ----------
        keepalive
            A duration such as ``"30s"`` or ``"5m"``, or seconds. None or False: no limit.

        Raises
        ------
        InvalidInput
            When it is not a duration, or not greater than zero.
        ClusterStopped
            When the cluster doesn't run any more.
        VersionMismatch
            When its hosts run a terradask without keepalive.
        """
        await self.send(SetKeepalive(parse_duration("keepalive", keepalive) or None))

    async def show_task_output(self, client: Client) -> None:
        """Show in a client what tasks print and warn with `distributed.print` and
        `distributed.warn`.

        Off by default, because Dask's client unpickles warnings: any task can then run code in the
        client's process. Use it only if you trust the tasks of all of the cluster's users. Hosts'
        logs have the output in any case.

        Parameters
        ----------
        client
            A connected client of this cluster. ``client.unsubscribe_topic("print")`` and
            ``client.unsubscribe_topic("warn")`` end it.

        Raises
        ------
        ClusterStopped
            When the cluster doesn't run any more.
        VersionMismatch
            When its hosts run an older terradask.
        """
        await self.send(ShowTaskOutput(client.id))

    async def send(self, command: Command) -> Any:
        """Send the scheduler a command, and return its answer.

        Raises
        ------
        ClusterClosed, ClusterStopped
            When the cluster doesn't run any more.
        VersionMismatch
            When its hosts run another terradask, without this command.
        ClusterError
            When it is refused.
        """
        async with self.translated_end():
            return await commands.send(self.scheduler, self.health.name, command)

    @asynccontextmanager
    async def translated_end(self) -> AsyncIterator[None]:
        """Translate an ``OSError`` inside to the reason of the cluster's end, if it has ended."""
        self.health.check()
        try:
            yield
        except OSError:
            await self.run.note_if_over()
            self.health.check()
            raise


def _replacement_error(attachment: Attachment) -> SchedulerReplaced:
    name = attachment.descriptor.cluster
    return SchedulerReplaced(
        f"The scheduler of cluster {name!r} died and was replaced: its tasks and results are lost.",
        cluster=name,
        given=(
            f"the scheduler is now on instance {attachment.scheduler.instance_id}, boot "
            f"{attachment.scheduler.boot}"
        ),
        advice=f"attach to the new one and submit the work again: Cluster(name={name!r})",
    )
