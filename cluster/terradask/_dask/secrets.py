"""Send private variables and the caller's credentials to a cluster's processes."""

from __future__ import annotations

import asyncio
import datetime
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING

from distributed.core import Status

from terradask._clusters.private_envs import check_private_envs
from terradask._common.once import OncePerCause
from terradask._dask.commands import send
from terradask._dask.threads import Call, cancelled
from terradask.errors import VersionMismatch, WorkersUntold
from terradask_host.commands import SendSecrets

if TYPE_CHECKING:
    from terradask._aws.credentials import LentCredentials
    from terradask._clusters.attach import Attachment
    from terradask._dask.connection import SchedulerConnection
    from terradask._dask.health import Health

logger = logging.getLogger("terradask")

#: Lent credentials are renewed after half of their validity, but not more often than this.
SHORTEST_PAUSE_SECONDS = 60.0
#: After a suspend of this machine, a due renewal is sent within this time.
_LONGEST_SLEEP_SECONDS = 15.0

#: Longest wait for a replacement scheduler: it listens before it accepts secrets.
HAND_OVER_SECONDS = 60.0


@dataclass(eq=False, repr=False)
class SecretRelay:
    """Send secrets over mutual TLS to a scheduler and to its replacement."""

    connection: SchedulerConnection
    health: Health
    call: Call
    lend: Callable[[], LentCredentials]
    _: KW_ONLY
    shortest_pause_seconds: float = SHORTEST_PAUSE_SECONDS
    hand_over_seconds: float = HAND_OVER_SECONDS
    hand_over_pause_seconds: float = 1.0
    #: All sent secrets, for a replacement scheduler.
    sent: SendSecrets = field(default_factory=SendSecrets, init=False)
    _refreshing: asyncio.Task[None] | None = field(default=None, init=False)

    async def send_private_envs(self, env: Mapping[str, str]) -> None:
        """Set environment variables in the scheduler's and all workers' processes, without storing
        them.

        They travel over mutual TLS to the scheduler, and from there to workers, including those
        that join later or restart. ``/proc`` doesn't show them, but tasks and the processes that
        tasks start can read them, and so can everyone who may connect to the cluster. Use
        ``environ=`` for variables that are not secret.

        Parameters
        ----------
        env
            Values by name. They replace values sent before for the same names.

        Raises
        ------
        InvalidInput
            For a name or a value that can't be used; the value is never shown.
        WorkersUntold
            When some workers don't answer their scheduler; all others have the variables.
        ClusterClosed, ClusterStopped
            When this object has left the cluster, or the cluster doesn't run any more.
        VersionMismatch
            When its hosts run a terradask without this feature.

        Notes
        -----
        The scheduler's process holds them. An open `Cluster` object sends them to a replaced
        scheduler again.
        """
        self._check_all_have(await self._send(SendSecrets(environ=check_private_envs(env))))

    async def send_credentials(self, automatic_refresh: bool = False) -> None:
        """Send your temporary credentials to the scheduler and all workers, replacing any sent
        before.

        The AWS SDKs in tasks read them from an endpoint on each process's loopback, and read them
        again before they expire. An SDK session that was made before the first credentials arrived
        keeps those of the instance role. An IAM user's access key is never sent, but temporary
        credentials for it (``sts:GetSessionToken``); credentials that are already temporary are
        sent unchanged.

        Parameters
        ----------
        automatic_refresh
            Whether to send new ones before these expire, as long as this object is open, as
            ``Cluster(credentials="local")`` does. False doesn't end a refresh that already runs.

        Raises
        ------
        NoCredentials, InvalidCredentials
            When this machine has no valid credentials.
        AccessDenied
            When AWS refuses ``sts:GetSessionToken``, for example because of a service control
            policy.
        WorkersUntold
            When some workers don't answer their scheduler; all others have the credentials.
        ClusterClosed, ClusterStopped
            When this object has left the cluster, or the cluster doesn't run any more.
        VersionMismatch
            When its hosts run a terradask without this feature.

        Notes
        -----
        Permissions needed: none.
        """
        lent, missed = await self._send_lent()
        if automatic_refresh and not self.is_refreshing:
            self._refreshing = asyncio.create_task(self._refresh_credentials(lent.expires_at))
        self._check_all_have(missed)

    async def send_first_credentials(self) -> None:
        """Send credentials and keep renewing them; an unresponsive worker doesn't block the
        start.
        """
        try:
            await self.send_credentials(automatic_refresh=True)
        except WorkersUntold as error:
            logger.warning("cluster %s: %s", self.health.name, error)

    @property
    def is_refreshing(self) -> bool:
        """Whether credentials are renewed before they expire."""
        return self._refreshing is not None

    async def stop(self) -> None:
        """Stop sending, and drop the sent secrets."""
        await self.stop_refreshing()
        self.sent = SendSecrets()

    async def stop_refreshing(self) -> None:
        """Stop renewing credentials."""
        await cancelled(self._refreshing)
        self._refreshing = None

    async def hand_over(self, attachment: Attachment) -> None:
        """Send a replacement scheduler the secrets of the old one."""
        if self.sent == SendSecrets():
            return
        try:
            async with asyncio.timeout(self.hand_over_seconds):
                while not await self._handed_over(attachment):
                    await asyncio.sleep(self.hand_over_pause_seconds)
        except Exception:
            logger.debug(
                "cluster %s: its new scheduler doesn't accept the secrets",
                self.health.name,
                exc_info=True,
            )
            logger.warning(
                "cluster %s: could not send the private variables and credentials of the old "
                "scheduler to the new one; attach to it, and send them again",
                self.health.name,
            )

    async def _handed_over(self, attachment: Attachment) -> bool:
        try:
            async with await self.connection.dialer.scheduler_of(attachment) as scheduler:
                await send(scheduler, self.health.name, self.sent)
                return True
        except (OSError, VersionMismatch):
            # It listens before it takes commands.
            return False

    async def _send_lent(self) -> tuple[LentCredentials, Sequence[str]]:
        lent: LentCredentials = await self.call(self.lend)
        return lent, await self._send(SendSecrets(credentials=lent.document()))

    async def _refresh_credentials(self, expires_at: datetime.datetime) -> None:
        """Renew credentials until this object is closed or its cluster is over."""
        pause, failures = datetime.timedelta(seconds=self.shortest_pause_seconds), OncePerCause()
        due = next_refresh(expires_at, _now(), pause)
        while await self._sleep_until(due):
            try:
                lent, missed = await self._send_lent()
                self._check_all_have(missed)
                expires_at = lent.expires_at
                failures.clear()
                due = next_refresh(expires_at, _now(), pause)
            except InterruptedError:
                return
            except Exception as error:
                # The cause may be temporary, such as a missing network; it is logged once.
                logger.log(
                    failures.level("refresh"),
                    "cluster %s: can't renew the credentials that expire at %s: %s",
                    self.health.name,
                    f"{expires_at:%Y-%m-%dT%H:%M:%SZ}",
                    error,
                )
                logger.debug("cluster %s: the reason", self.health.name, exc_info=True)
                due = _now() + pause

    async def _sleep_until(self, due: datetime.datetime) -> bool:
        """Sleep by the wall clock, even across a suspend; return whether the cluster still
        runs.
        """
        while self.health.status in (Status.starting, Status.running) and self.health.ended is None:
            seconds = (due - _now()).total_seconds()
            if seconds <= 0:
                return True
            await asyncio.sleep(min(seconds, _LONGEST_SLEEP_SECONDS))
        return False

    async def _send(self, secrets: SendSecrets) -> Sequence[str]:
        """Send and keep secrets; return the names of the workers that didn't get them."""
        answer = await self.connection.send(secrets)
        self.sent = SendSecrets(
            {**self.sent.environ, **secrets.environ}, secrets.credentials or self.sent.credentials
        )
        missed: Sequence[str] = answer["missed"]
        return missed

    def _check_all_have(self, missed: Sequence[str]) -> None:
        if missed:
            raise WorkersUntold(
                f"{len(missed)} of the workers of cluster {self.health.name!r} don't answer and "
                "didn't get the secrets.",
                cluster=self.health.name,
                workers=missed,
                advice="send it again; restarted and new workers get it automatically",
            )


def next_refresh(
    expires_at: datetime.datetime,
    now: datetime.datetime,
    shortest_pause: datetime.timedelta = datetime.timedelta(seconds=SHORTEST_PAUSE_SECONDS),
) -> datetime.datetime:
    """Return when to renew credentials: after half of the time left."""
    return now + max((expires_at - now) / 2, shortest_pause)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
