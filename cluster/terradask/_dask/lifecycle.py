"""Open and leave a cluster object: by close, stop, fork, or the end of the process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import distributed.client as dasks
from distributed import Client, utils
from distributed.core import Status
from distributed.deploy.spec import SpecCluster

from terradask._common.dollars import shown_usd
from terradask._common.forked import left_to_parent
from terradask._common.loop_signals import SignalsOfTask, signals_cancel, termination_held
from terradask._common.progress import Message, Progress, is_interruption, silent
from terradask._common.side_by_side import side_by_side
from terradask._dask.ending import Ending, wait_for_endings
from terradask._dask.rollback import note_untouched
from terradask_host.documents import LifetimePolicy
from terradask_modules.names import SCHEDULER_GROUP
from terradask_modules.short_errors import explain_interrupt
from terradask_modules.tracebacks import is_interrupted

if TYPE_CHECKING:
    from terradask._dask.health import Health
    from terradask._dask.provision import Provisioned, Provisioner
    from terradask._dask.request import Request
    from terradask._dask.threads import Threads
    from terradask._observe.spent import PricedInstance


def describe_left_running(provisioned: Provisioned) -> str:
    """Describe a cluster that keeps running: hosts, price, and ways to end it. Unreadable values
    are omitted.
    """
    deployment = provisioned.deployment
    name, life = deployment.name, provisioned.attachment.run.life or LifetimePolicy()
    try:
        number, price = side_by_side([partial(each, provisioned) for each in (_hosts, _price)], 2)
        hosts = f": {number}, {price}"
    except Exception:
        logger.debug("cluster %s: can't read its hosts and price", name, exc_info=True)
        hosts = ""
    seconds = life.no_client_timeout_seconds
    own_end = "" if seconds is None else f"; {seconds:g} s after its last client it ends by itself"
    return (
        f"{name} keeps running{hosts}{own_end}. To end it: terradask stop {name}, or "
        f"Cluster.from_name({name!r}).shutdown()"
    )


def _hosts(provisioned: Provisioned) -> str:
    groups = provisioned.deployment.groups.describe()
    n = sum(one.desired for key, one in groups.items() if key != SCHEDULER_GROUP)
    return f"a scheduler and {n} host{'' if n == 1 else 's'} of workers"


def priced_instances_of(provisioned: Provisioned) -> list[PricedInstance] | None:
    """Return a cluster's instances with their current prices; None without permission."""
    from terradask._clusters.overview import priced_instances

    workspace = provisioned.workspace
    return priced_instances(
        workspace.aws,
        workspace=workspace.settings.workspace.name,
        cluster=provisioned.deployment.name,
    )


def _price(provisioned: Provisioned) -> str:
    from terradask._observe.spent import together

    usd = together(priced_instances_of(provisioned))
    return "at an unknown price" if usd is None else f"{shown_usd(usd)} an hour"


logger = logging.getLogger("terradask")

#: Leaves the cluster without ending it.
Disconnect = Callable[[], Awaitable[None]]


def _do_nothing() -> None:
    pass


@dataclass(eq=False, repr=False)
class Lifecycle:
    """Open the cluster of one object, and end it if the object owns it."""

    request: Request
    provisioner: Provisioner
    health: Health
    threads: Threads
    _: KW_ONLY
    #: Begins to leave the cluster at process exit; returns a function that waits for that.
    on_exit: Callable[[], Callable[[], None]]
    shutdown_on_close: bool = field(init=False)
    #: The cluster, once provisioned.
    provisioned: Provisioned | None = field(default=None, init=False)
    _stops: bool = field(default=False, init=False)
    _is_ended: bool = field(default=False, init=False)
    #: Once it leaves the cluster: how it ends that, or False.
    _ending: Ending | Literal[False] | None = field(default=None, init=False)
    #: Runs before the end.
    _preparing: asyncio.Future[None] | None = field(default=None, init=False)
    _wait_for_clients: Callable[[], None] = field(default_factory=lambda: _do_nothing, init=False)
    #: Whether its object is complete.
    is_made: bool = field(default=False, init=False)
    #: Whether a ``with`` block closes it.
    is_in_block: bool = field(default=False, init=False)
    #: Returns the ownership that `_take_over` took.
    _return_ownership: Callable[[], None] = field(default_factory=lambda: _do_nothing, init=False)
    #: The state in the last live view.
    state_when_left: str = field(default="closed", init=False)
    #: How it was ended, in words.
    how_ended: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self.shutdown_on_close = bool(self.request.shutdown_on_close)

    # ---- opening ---------------------------------------------------------------------------------

    async def open(
        self, attach: Callable[[Provisioned], Awaitable[None]], disconnect: Disconnect
    ) -> None:
        """Provision the cluster, unless done before, and attach to it; roll back on failure."""
        while self.health.status == Status.starting:
            await asyncio.sleep(0.01)
        if self.health.status == Status.running:
            return
        if self.health.status == Status.closed:
            raise ValueError("Cluster is closed")
        self.health.status = Status.starting
        with signals_cancel(self.provisioner.note_unfinished) as signals:
            _BEING_MADE.add(self)
            try:
                await self._provision_and_attach(attach, signals)
            except BaseException as error:
                # If closed while waiting for workers, `close` ends the cluster.
                if self.health.status not in (Status.closing, Status.closed):
                    await self._fail(error, disconnect, signals)
                raise
            finally:
                _BEING_MADE.discard(self)

    async def _provision_and_attach(
        self, attach: Callable[[Provisioned], Awaitable[None]], signals: SignalsOfTask
    ) -> None:
        if self.provisioned is None:
            self.provisioned = await self._provision_in_thread(signals)
        if self.request.shutdown_on_close is None:
            self.shutdown_on_close = self.provisioned.origin != "attached"
        await attach(self.provisioned)
        if (
            self.request.shutdown_on_close is None
            and not self.request.attach
            and not self.is_in_block
        ):
            self._take_over(self.provisioned)

    def register(self) -> None:
        """Register the cluster for the end or a fork of the process."""
        _OPEN.add(self)

    def enter_block(self) -> None:
        """Enter a ``with`` block, which closes the cluster: an earlier owner in this process stays
        the owner.
        """
        self.is_in_block = True
        self._return_ownership()

    def _take_over(self, provisioned: Provisioned) -> None:
        """Take the ownership from an earlier object in this process, which a notebook cell that
        runs again has dropped. Objects in a ``with`` block keep it.
        """
        for other in list(_OPEN):
            theirs = other.provisioned
            if (
                other is not self
                and theirs is not None
                and other.owns
                and not other.is_in_block
                and other.health.is_running
                and _run_key(theirs) == _run_key(provisioned)
            ):
                other.shutdown_on_close = False
                self.provisioned = replace(provisioned, origin=theirs.origin)
                self.shutdown_on_close = True
                self._return_ownership = partial(self._hand_over, other, provisioned)

    def _hand_over(self, other: Lifecycle, provisioned: Provisioned) -> None:
        if other.health.is_running:
            self.provisioned, self.shutdown_on_close = provisioned, False
            other.shutdown_on_close = True

    @property
    def owns(self) -> bool:
        """Whether the cluster ends with this object."""
        return bool(self.shutdown_on_close) and not self._is_ended

    async def _provision_in_thread(self, signals: SignalsOfTask) -> Provisioned:
        provisioning = asyncio.ensure_future(self.threads.call(self._provision))
        try:
            found: Provisioned = await asyncio.shield(provisioning)
        except asyncio.CancelledError as error:
            self.provisioner.cancel(error)
            try:
                self.provisioned = await self._in_full(provisioning, signals)
            except Exception as failure:
                if not is_interrupted(error):
                    raise error from failure
            raise
        return found

    def _provision(self) -> Provisioned:
        found = self.provisioner.run()
        # At once: the process may end before its loop goes on.
        if self.request.shutdown_on_close is None:
            self.shutdown_on_close = found.origin != "attached"
        self.provisioned = found
        return found

    async def _in_full(self, rollback: Awaitable[Any], signals: SignalsOfTask) -> Any:
        """Wait for a rollback, also if the task is cancelled again, unless by a second Ctrl-C."""
        running = asyncio.ensure_future(rollback)
        while True:
            try:
                return await asyncio.shield(running)
            except asyncio.CancelledError as again:
                if running.cancelled() or signals.is_hurried:
                    self.provisioner.cancel_rollback()
                    self.provisioner.note_unfinished(again)
                    raise

    async def _fail(
        self, error: BaseException, disconnect: Disconnect, signals: SignalsOfTask
    ) -> None:
        self.health.status = Status.failed
        self._note_state(error)
        try:
            try:
                await disconnect()
            except Exception:
                # This failure must neither hide the error nor prevent the rollback.
                logger.debug("cluster %s: can't disconnect", self.health.name, exc_info=True)
            self.health.status = Status.failed
            if self.provisioned is not None:
                undone = self.threads.call(self.provisioner.roll_back_after, error)
                await self._in_full(undone, signals)
        finally:
            self.health.status = Status.closed
            self.threads.shutdown()

    def give_up(self, error: BaseException) -> None:
        """Roll back in the caller's thread, which receives Ctrl-C while the loop's thread waits."""
        self._note_state(error)
        try:
            if self.provisioned is not None:
                self.provisioner.roll_back_after(error)
        finally:
            self.health.status = Status.closed
            self.threads.shutdown()

    @contextlib.contextmanager
    def interruptions_explained(self) -> Iterator[None]:
        """Add notes to a Ctrl-C, or to the cancellation of a task, during a call of an open
        cluster: what goes on, and what is left.

        During its creation, the rollback adds them.
        """
        try:
            yield
        except (KeyboardInterrupt, asyncio.CancelledError) as error:
            self._explain(error)
            raise

    def _explain(self, error: BaseException) -> None:
        name, provisioned = self.health.name, self.provisioned
        if provisioned is None or not self.is_made:
            return
        if self._is_ended:
            explain_interrupt(
                error, "nothing was taken back", f"cluster {name!r} has ended: {self.how_ended}"
            )
            return
        until = "is closed or this program ends" if self.shutdown_on_close else "is stopped"
        # By now the loop's thread may have closed the interrupted object.
        if self.health.status == Status.running:
            explain_interrupt(
                error, "nothing was taken back", f"cluster {name!r}, until it {until}"
            )
        elif self._ending is False:
            note_untouched(error, name)
        elif self._ending is not None:
            explain_interrupt(
                error,
                f"cluster {name!r} goes on ending, and the end of this program waits for that",
                f"nothing then; if that is interrupted too, {self._ending.left()}",
            )

    def _note_state(self, error: BaseException) -> None:
        # Ending what was made may fail what waits for it: the first error counts.
        if self.state_when_left == "closed":
            self.state_when_left = "interrupted" if is_interruption(error) else "failed"

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
            self.health.status == Status.closed
            and self.provisioned is not None
            and not self.shutdown_on_close
        ):
            raise self.health.closed(
                f"end it from a new one: Cluster.from_name({self.health.name!r}).shutdown()"
            )
        self.shutdown_on_close = True

    def stop(self) -> None:
        """Stop the cluster, and leave it: groups at zero, keys removed.

        The deployment stays, and costs only its secret; ``Cluster(name)`` and ``terradask start``
        start it again, without Terraform and with new keys. A cluster that is still being made is
        rolled back. Doesn't wait for the instances to end.

        Raises
        ------
        ClusterClosed
            When this object has left the cluster.

        Notes
        -----
        Permissions needed: ``autoscaling:DescribeAutoScalingGroups``, ``SetDesiredCapacity``,
        ``SetInstanceProtection``, ``BatchDeleteScheduledAction``,
        ``secretsmanager:PutSecretValue``, ``UpdateSecretVersionStage``, and writing and deleting
        the cluster's objects.
        """
        self.health.check_open()
        self._stops = True
        self.shutdown_on_close = True

    async def close(
        self, disconnect: Disconnect, before_end: Disconnect, progress: Progress = silent
    ) -> None:
        """Leave the cluster, and end it if `shutdown_on_close` is True.

        Destroys a cluster that was made here, and stops any other. A cluster that is still being
        made is rolled back.

        Parameters
        ----------
        timeout
            Longest wait, in seconds. By default there is no limit.
        """
        if self.health.status == Status.starting:
            self.provisioner.cancel()
        while self.health.status in (Status.starting, Status.failed, Status.closing):
            await asyncio.sleep(0.05)
        if self.health.status in (Status.closed, Status.created):
            self.health.status = Status.closed
            return
        self.health.status = Status.closing
        self._ending = False
        if self.shutdown_on_close and self.provisioned is not None:
            verb = "destroy" if self._destroys(self.provisioned) else "stop"
            self._ending = Ending(self.provisioned, verb, asyncio.get_running_loop())
        leaving = asyncio.ensure_future(self._leave_wholly(disconnect, before_end, progress))
        with (
            signals_cancel(self._explain, holds_termination=True),
            self.interruptions_explained(),
        ):
            try:
                # A Ctrl-C ends the wait alone.
                await asyncio.shield(leaving)
            except asyncio.CancelledError:
                if self._preparing is not None:
                    self._preparing.cancel()
                if self._ending:
                    leaving.add_done_callback(self._ending.warn_of_failure)
                raise

    async def _leave_wholly(
        self, disconnect: Disconnect, before_end: Disconnect, progress: Progress
    ) -> None:
        try:
            await self._leave(before_end, progress)
        finally:
            if self._ending:
                self._ending.leave()
            _OPEN.discard(self)
            try:
                await disconnect()
            finally:
                self.health.status = Status.closed
                self.threads.shutdown()

    async def _leave(self, before_end: Disconnect, progress: Progress) -> None:
        if self._ending:
            preparing = self._preparing = asyncio.ensure_future(before_end())
            try:
                await asyncio.wait([preparing])
            finally:
                # Also if a loop that ends cancels this.
                ended = self._ending.begin(self.threads, self._end)
            await ended
            if not preparing.cancelled():
                preparing.result()
        elif self.provisioned is not None and self.health.ended is None:
            self.state_when_left = "left running"
            text = await self.threads.call(describe_left_running, self.provisioned)
            progress(Message(text, kept=True))

    def _end(self, ending: Ending) -> None:
        """End the cluster, unless it was started again after this client's run."""
        provisioned = ending.provisioned
        deployment, run = provisioned.deployment, provisioned.attachment.run
        destroys = self._destroys(provisioned)
        end: Callable[[], bool | None] = (
            partial(deployment.zero_run, run.run_id)
            if destroys
            else partial(deployment.stop_run, run)
        )
        ended, _ = side_by_side([end, provisioned.learn_environment], 2)
        ending.is_zero = True
        if destroys and ended:
            provisioned.workspace.destroy_cluster(deployment.name)
        self.how_ended = "its deployment is destroyed" if destroys else "its deployment stays"
        self._is_ended = True

    def _destroys(self, provisioned: Provisioned) -> bool:
        return provisioned.origin == "created" and not self._stops

    def zero_at_exit(self) -> bool:
        """Begin to leave the cluster at process exit, and set its groups to zero if this object
        owns it; return whether they were.
        """
        provisioned = self.provisioned
        if provisioned is None or self.health.status == Status.closed:
            return False
        # Failures no longer matter while the process ends.
        with contextlib.suppress(Exception):
            self._wait_for_clients = self.on_exit()
        if not self.owns:
            return False
        return provisioned.deployment.zero_run(provisioned.attachment.run.run_id)

    def end_at_exit(self, *, is_zero: bool) -> None:
        """Leave the cluster, and end it if its groups are at zero; a later command completes the
        end.
        """
        provisioned = self.provisioned
        if provisioned is None or self.health.status == Status.closed:
            return
        if is_zero and provisioned.origin == "created":
            provisioned.deployment.note_closing()
            logger.warning(
                "cluster %s ended with this program, which had not closed it; its deployment costs "
                "its secret until terradask destroy %s or terradask sweep",
                self.health.name,
                self.health.name,
            )
        self._wait_for_clients()
        if is_zero and provisioned.origin != "created":
            provisioned.deployment.stop_at_exit()


def _disown(lifecycle: Lifecycle) -> None:
    lifecycle.health.disown()
    _OPEN.discard(lifecycle)


def _run_key(provisioned: Provisioned) -> tuple[str, str, str]:
    deployment = provisioned.deployment
    return deployment.bucket, deployment.name, provisioned.attachment.run.run_id


#: The clusters of this process.
_OPEN = left_to_parent(_disown)
#: Those that a coroutine makes now.
_BEING_MADE = left_to_parent(_disown)


def finish_calls() -> None:
    """Roll back clusters that coroutines make while the process ends, as that of a notebook's
    kernel, and wait for those that are ended. Called before Python waits for the threads that do
    it, which may start no other then.
    """
    for each in list(_BEING_MADE):
        # Of a SystemExit the log has what is left.
        each.provisioner.cancel(SystemExit())
    wait_for_endings()


def end_open_clusters() -> None:
    """End the clusters of this process at its exit: first set all groups to zero. Jupyter's SIGTERM
    soon after a kernel's shutdown request waits until this is done.
    """
    with termination_held():
        at_zero, clusters = set(), {*_OPEN, *_BEING_MADE}
        for each in clusters:
            with contextlib.suppress(Exception):
                if each.zero_at_exit():
                    at_zero.add(each)
        for each in clusters:
            with contextlib.suppress(Exception):
                each.end_at_exit(is_zero=each in at_zero)
            each.shutdown_on_close = False


# ---- Dask clients at process exit and after a fork -----------------------------------------------


#: Longest wait for a client to close while the process ends, in seconds.
_SECONDS = 2


# As a patch: host/upstream/client-shutdown-hook.patch
def is_shutdown_of_client() -> bool:
    """Return whether `distributed.Client.shutdown` called the calling function.

    It calls a cluster's ``close`` like other callers, but intends to end scheduler and workers.
    """
    return sys._getframe(2).f_code is Client._shutdown.__code__


def leave_at_exit(cluster: Any, stop_parts: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """Begin to stop a cluster object's parts and to close its clients while the process ends;
    return a function that waits for the clients. Open clients would reconnect to the ended cluster.
    """
    cluster.loop.add_callback(stop_parts)
    closing = [
        asyncio.run_coroutine_threadsafe(client._close(fast=True), client.loop.asyncio_loop)
        for client in list(Client._instances)
        if client.cluster is cluster and not client.asynchronous
    ]

    def wait() -> None:
        for each in closing:
            with contextlib.suppress(Exception):
                each.result(_SECONDS)

    return wait


def leave_clusters_to_parent(kind: type[SpecCluster]) -> None:
    """In a child process: disown all clusters of a kind, and mark their clients as closed."""
    for cluster in list(SpecCluster._instances):
        if isinstance(cluster, kind):
            cluster._health.disown()
    for client in list(Client._instances):
        if isinstance(client.cluster, kind):
            _close_inherited(client)
    if utils._offload_executor._threads:
        # Its thread exists in the parent only.
        utils._offload_executor = ThreadPoolExecutor(1, thread_name_prefix="Dask-Offload")


def _close_inherited(client: Any) -> None:
    # Prevents a second close at exit, and requests by its futures.
    client.status = "closed"
    client.generation += 1
    dasks._del_global_client(client)
    if dasks._current_client.get() is client:
        dasks._current_client.set(None)
    if client._set_as_default and dasks._get_global_client() is None:
        # Computations no longer use this cluster, as after a client's close.
        with client._set_config:
            pass


def leave_at_fork(kind: type[SpecCluster]) -> None:
    """Leave clusters of a kind to the parent in all forked children."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: leave_clusters_to_parent(kind))
