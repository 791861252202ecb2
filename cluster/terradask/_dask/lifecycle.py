"""Opening and leaving a cluster object: closing, stopping, forking, and the end of the process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from decimal import Decimal
from functools import partial

from distributed.core import Status

from terradask._common.forked import left_to_parent
from terradask._common.progress import Message, Progress, silent
from terradask._common.side_by_side import side_by_side
from terradask._common.sigterm import termination_held
from terradask._dask.health import Health
from terradask._dask.provision import Provisioned, Provisioner
from terradask._dask.request import Request
from terradask._dask.threads import Threads
from terradask_host.documents import LifetimePolicy
from terradask_modules.names import SCHEDULER_GROUP


def left_running(provisioned: Provisioned) -> str:
    """Return what runs on, what it costs, and how it ends; what can't be read is left out."""
    deployment = provisioned.deployment
    name, life = deployment.name, provisioned.attachment.run.life or LifetimePolicy()
    try:
        number, price = side_by_side([partial(each, provisioned) for each in (_hosts, _price)], 2)
        hosts = f": {number}, {price}"
    except Exception:
        logger.debug("cluster %s: can't read what runs on", name, exc_info=True)
        hosts = ""
    seconds = life.no_client_timeout_seconds
    without = "" if seconds is None else f"; {seconds:g} s after its last client it ends by itself"
    return (
        f"{name} runs on{hosts}{without}. To end it: terradask stop {name}, or "
        f"Cluster.from_name({name!r}).shutdown()"
    )


def _hosts(provisioned: Provisioned) -> str:
    groups = provisioned.deployment.groups.describe()
    n = sum(one.desired for key, one in groups.items() if key != SCHEDULER_GROUP)
    return f"a scheduler and {n} host{'' if n == 1 else 's'} of workers"


def hourly_usd(provisioned: Provisioned) -> Decimal | None:
    """Return what a cluster's machines cost now; None if that isn't known."""
    from terradask._clusters.overview import cluster_hourly_usd

    workspace = provisioned.workspace
    return cluster_hourly_usd(
        workspace.aws,
        workspace=workspace.settings.workspace.name,
        cluster=provisioned.deployment.name,
    )


def _price(provisioned: Provisioned) -> str:
    usd = hourly_usd(provisioned)
    return "at a price that isn't known" if usd is None else f"${usd:.4f} an hour"


logger = logging.getLogger("terradask")

#: Leaves the cluster without ending it.
Disconnect = Callable[[], Awaitable[None]]


def _nothing() -> None:
    """Be what is called where there is nothing to do."""


@dataclass(eq=False, repr=False)
class Lifecycle:
    """Opens the cluster of one object, and ends it if it is to end."""

    request: Request
    provisioner: Provisioner
    health: Health
    threads: Threads
    _: KW_ONLY
    #: Begins to leave the cluster as the process ends; returns what waits for that.
    on_exit: Callable[[], Callable[[], None]]
    shutdown_on_close: bool = field(init=False)
    #: The cluster, once it was provisioned.
    provisioned: Provisioned | None = field(default=None, init=False)
    _stops: bool = field(default=False, init=False)
    _is_ended: bool = field(default=False, init=False)
    _left: Callable[[], None] = field(default_factory=lambda: _nothing, init=False)
    #: Whether a ``with`` block closes it.
    is_in_block: bool = field(default=False, init=False)
    #: Gives what it took over back.
    _give_back: Callable[[], None] = field(default_factory=lambda: _nothing, init=False)
    #: What the last view of the cluster shows: another client's, or this user's wish, runs on.
    state_when_left: str = field(default="closed", init=False)

    def __post_init__(self) -> None:
        self.shutdown_on_close = bool(self.request.shutdown_on_close)

    # ---- opening ---------------------------------------------------------------------------------

    async def open(
        self, attach: Callable[[Provisioned], Awaitable[None]], disconnect: Disconnect
    ) -> None:
        """Provision the cluster, unless that was done, and attach to it; roll back on failure."""
        while self.health.status == Status.starting:
            await asyncio.sleep(0.01)
        if self.health.status == Status.running:
            return
        if self.health.status == Status.closed:
            raise ValueError("Cluster is closed")
        self.health.status = Status.starting
        try:
            if self.provisioned is None:
                self.provisioned = await self._provision_in_thread()
            if self.request.shutdown_on_close is None:
                self.shutdown_on_close = self.provisioned.origin != "attached"
            await attach(self.provisioned)
            if (
                self.request.shutdown_on_close is None
                and not self.request.attach
                and not self.is_in_block
            ):
                self._take_over(self.provisioned)
        except BaseException as error:
            # If it was closed while it waited for workers, `close` ends the cluster.
            if self.health.status not in (Status.closing, Status.closed):
                await self._fail(error, disconnect)
            raise

    def register(self) -> None:
        """Register the cluster to be left, or ended, when the process ends or forks."""
        _OPEN.add(self)

    def enter_block(self) -> None:
        """Note that a ``with`` block closes it: an earlier object here keeps what it owned."""
        self.is_in_block = True
        self._give_back()

    def _take_over(self, provisioned: Provisioned) -> None:
        """Own the cluster in the place of an earlier object of this process: a notebook's cell that
        is run again forgets it. One in a ``with`` block keeps what it owns.
        """
        for other in list(_OPEN):
            theirs = other.provisioned
            if (
                other is not self
                and theirs is not None
                and other.owns
                and not other.is_in_block
                and other.health.is_running
                and _place_of(theirs) == _place_of(provisioned)
            ):
                other.shutdown_on_close = False
                self.provisioned = replace(provisioned, origin=theirs.origin)
                self.shutdown_on_close = True
                self._give_back = partial(self._hand_over, other, provisioned)

    def _hand_over(self, other: Lifecycle, provisioned: Provisioned) -> None:
        if other.health.is_running:
            self.provisioned, self.shutdown_on_close = provisioned, False
            other.shutdown_on_close = True

    @property
    def owns(self) -> bool:
        """Whether the cluster ends with this object."""
        return bool(self.shutdown_on_close) and not self._is_ended

    async def _provision_in_thread(self) -> Provisioned:
        making = asyncio.ensure_future(self.threads.call(self.provisioner.run))
        try:
            found: Provisioned = await asyncio.shield(making)
        except asyncio.CancelledError:
            self.provisioner.cancel()
            with contextlib.suppress(Exception):
                self.provisioned = await making
            raise
        return found

    async def _fail(self, error: BaseException, disconnect: Disconnect) -> None:
        self.health.status = Status.failed
        try:
            try:
                await disconnect()
            except Exception:
                # This failure must neither hide the error nor prevent the rollback.
                logger.debug("cluster %s: can't disconnect", self.health.name, exc_info=True)
            self.health.status = Status.failed
            if self.provisioned is not None:
                await self.threads.call(self.provisioner.roll_back_after, error)
        finally:
            self.health.status = Status.closed
            self.threads.shutdown()

    def give_up(self, error: BaseException) -> None:
        """Roll back in the caller's thread, which gets a Ctrl-C while the loop's thread waits."""
        try:
            if self.provisioned is not None:
                self.provisioner.roll_back_after(error)
        finally:
            self.health.status = Status.closed
            self.threads.shutdown()

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
        ends = bool(self.shutdown_on_close)
        self.health.status = Status.closing
        try:
            if ends and self.provisioned is not None:
                await before_end()
                await self.threads.call(self._end, self.provisioned)
            elif self.provisioned is not None and self.health.ended is None:
                self.state_when_left = "left running"
                left = await self.threads.call(left_running, self.provisioned)
                progress(Message(left, kept=True))
        finally:
            _OPEN.discard(self)
            try:
                await disconnect()
            finally:
                self.health.status = Status.closed
                self.threads.shutdown()

    def _end(self, provisioned: Provisioned) -> None:
        """End the cluster, unless it was started again after this client's run."""
        deployment, run = provisioned.deployment, provisioned.attachment.run
        destroys = provisioned.origin == "created" and not self._stops
        end: Callable[[], bool | None] = (
            partial(deployment.zero_run, run.run_id)
            if destroys
            else partial(deployment.stop_run, run)
        )
        ended, _ = side_by_side([end, provisioned.learn_environment], 2)
        if destroys and ended:
            provisioned.workspace.destroy_cluster(deployment.name)
        self._is_ended = True

    def zero_at_exit(self) -> bool:
        """Begin to leave the cluster as the process ends, and bring it to zero if it is to end too;
        return whether it was.
        """
        provisioned = self.provisioned
        if provisioned is None or self.health.status == Status.closed:
            return False
        # Failures no longer matter while the process ends.
        with contextlib.suppress(Exception):
            self._left = self.on_exit()
        if not self.owns:
            return False
        return provisioned.deployment.zero_run(provisioned.attachment.run.run_id)

    def end_at_exit(self, *, is_zero: bool) -> None:
        """Leave the cluster, and end it if it is at zero; a later command finishes."""
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
        self._left()
        if is_zero and provisioned.origin != "created":
            provisioned.deployment.stop_at_exit()


def _leave(lifecycle: Lifecycle) -> None:
    lifecycle.health.disown()
    _OPEN.discard(lifecycle)


def _place_of(provisioned: Provisioned) -> tuple[str, str, str]:
    deployment = provisioned.deployment
    return deployment.bucket, deployment.name, provisioned.attachment.run.run_id


#: The clusters of this process.
_OPEN = left_to_parent(_leave)


def end_open_clusters() -> None:
    """End the clusters of this process, which is ending: first all go to zero. Jupyter sends a
    kernel SIGTERM soon after it was asked to end; that waits until this is done.
    """
    with termination_held():
        at_zero = set()
        for each in list(_OPEN):
            with contextlib.suppress(Exception):
                if each.zero_at_exit():
                    at_zero.add(each)
        for each in list(_OPEN):
            with contextlib.suppress(Exception):
                each.end_at_exit(is_zero=each in at_zero)
            each.shutdown_on_close = False
