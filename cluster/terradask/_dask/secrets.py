"""Sending secrets to a cluster's processes: private environment variables, and credentials of the caller's."""

from __future__ import annotations

import asyncio
import datetime
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from distributed.core import Status
from distributed.protocol import to_serialize

from terradask._aws.credentials import LentCredentials
from terradask._common.once import OncePerCause
from terradask._dask.connection import SchedulerConnection
from terradask._dask.health import Health
from terradask._dask.threads import Call
from terradask._deployments.attach import Attachment
from terradask._deployments.private_envs import check_private_envs
from terradask.errors import WorkersUntold

logger = logging.getLogger("terradask")

#: Lent credentials are sent anew when half of their time is over, but not more often.
SHORTEST_PAUSE_SECONDS = 60.0
#: A machine that has slept finds out within this time what is due.
_LONGEST_SLEEP_SECONDS = 15.0

#: A scheduler in another's place listens a moment before it takes anything.
HAND_OVER_SECONDS = 60.0


class SentSecrets:
    """What was sent, for a scheduler in the other's place. Its repr shows none of it."""

    def __init__(self) -> None:
        self._environ: dict[str, str] = {}
        self._credentials: dict[str, str] = {}

    def add(self, given: Mapping[str, Any]) -> None:
        """Add what was sent besides, or anew."""
        self._environ |= given.get("environ", {})
        self._credentials |= given.get("credentials", {})

    @property
    def given(self) -> dict[str, dict[str, str]]:
        """All of it, as it is sent; nothing where there is nothing."""
        return {name: held for name, held in {"environ": self._environ, "credentials": self._credentials}.items() if held}


class SecretRelay:
    """Sends secrets to a scheduler over mutual TLS, which passes them on to its workers.

    Here they are kept in memory, for a scheduler in the other's place.
    """

    def __init__(
        self,
        connection: SchedulerConnection,
        health: Health,
        call: Call,
        lend: Callable[[], LentCredentials],
        *,
        shortest_pause_seconds: float = SHORTEST_PAUSE_SECONDS,
        hand_over_seconds: float = HAND_OVER_SECONDS,
        hand_over_pause_seconds: float = 1.0,
    ) -> None:
        self._connection = connection
        self._health = health
        self._call = call
        self._lend = lend
        self._shortest_pause = datetime.timedelta(seconds=shortest_pause_seconds)
        self._hand_over_seconds = hand_over_seconds
        self._hand_over_pause_seconds = hand_over_pause_seconds
        self._refreshing: asyncio.Task[None] | None = None
        self.sent = SentSecrets()

    async def send_private_envs(self, env: Mapping[str, str]) -> None:
        """Set environment variables in the scheduler's and all workers' processes, of which nothing is written anywhere.

        They go to the scheduler over mutual TLS, and from it to workers, also to those that come later or are started again. They are set
        while the processes run, so that ``/proc`` doesn't show them. Tasks find them in `os.environ`, and processes that tasks start
        inherit them; so whoever may connect to the cluster can read them. ``environ=`` is for variables that may be seen.

        Parameters
        ----------
        env
            Values by name. Those of names that were sent before replace the older ones.

        Raises
        ------
        InvalidInput
            For a name or a value that can't be used; no value is ever shown.
        WorkersUntold
            When workers don't answer their scheduler; all others have them.
        ClusterClosed, ClusterEnded, ClusterStopped
            When this object has left the cluster, or that doesn't run any more.
        VersionMismatch
            When its hosts are of a terradask that knows nothing of it.

        Notes
        -----
        They are lost with the scheduler's process. Where another scheduler takes its place, a `Cluster` object that is still open sends it
        what it had sent to the old one.
        """
        self._check_all_have(await self._send({"environ": check_private_envs(env)}))

    async def send_credentials(self, automatic_refresh: bool = False) -> None:
        """Send temporary credentials of yours to the scheduler and all workers, in place of those that were sent before.

        The AWS SDKs in tasks find them at an endpoint on each process's loopback, and read them there again before they expire. A session
        that was made before the first credentials came keeps those of the instance role. Of an IAM user's access key a session is sent
        (``sts:GetSessionToken``), never the key; credentials that are temporary already are sent as they are.

        Parameters
        ----------
        automatic_refresh
            Whether to send others, before these expire, for as long as this object is open, as ``Cluster(credentials="local")`` does. By
            default it is left as it is.

        Raises
        ------
        NoCredentials, ExpiredCredentials, InvalidCredentials
            When there are none on this machine that are good.
        AccessDenied
            When AWS refuses ``sts:GetSessionToken``, which a service control policy can bring about.
        WorkersUntold
            When workers don't answer their scheduler; all others have them.
        ClusterClosed, ClusterEnded, ClusterStopped
            When this object has left the cluster, or that doesn't run any more.
        VersionMismatch
            When its hosts are of a terradask that knows nothing of it.

        Notes
        -----
        Permissions needed: none.
        """
        lent, missed = await self._send_lent()
        if automatic_refresh and not self.is_refreshing:
            self._refreshing = asyncio.create_task(self._refresh_credentials(lent.expires_at))
        self._check_all_have(missed)

    async def send_first_credentials(self) -> None:
        """Send credentials from now on. A worker that doesn't answer gets the next ones, and holds up no start."""
        try:
            await self.send_credentials(automatic_refresh=True)
        except WorkersUntold as error:
            logger.warning("cluster %s: %s", self._health.name, error)

    @property
    def is_refreshing(self) -> bool:
        """Whether credentials are sent anew before they expire."""
        return self._refreshing is not None

    async def stop(self) -> None:
        """Send nothing any more, and forget what was sent."""
        await self.stop_refreshing()
        self.sent = SentSecrets()

    async def stop_refreshing(self) -> None:
        """Send no credentials before those that were sent expire."""
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)
            self._refreshing = None

    async def hand_over(self, attachment: Attachment) -> None:
        """Send a scheduler in another's place what the other had been sent from here."""
        held = self.sent.given
        if not held:
            return
        try:
            async with asyncio.timeout(self._hand_over_seconds):
                while not await self._handed_over(held, attachment):
                    await asyncio.sleep(self._hand_over_pause_seconds)
        except Exception:
            logger.debug("cluster %s: its new scheduler doesn't take what the old one had", self._health.name, exc_info=True)
            logger.warning(
                "cluster %s: its new scheduler could not be sent the private variables and credentials that the old one had; attach to it, "
                "and send them again",
                self._health.name,
            )

    async def _handed_over(self, held: Mapping[str, Any], attachment: Attachment) -> bool:
        try:
            async with await self._connection.scheduler_of(attachment) as scheduler:
                return bool(await scheduler.terradask_confide(sealed=_sealed(held)))
        except OSError:
            return False

    async def _send_lent(self) -> tuple[LentCredentials, Sequence[str]]:
        lent: LentCredentials = await self._call(self._lend)
        return lent, await self._send({"credentials": lent.document()})

    async def _refresh_credentials(self, expires_at: datetime.datetime) -> None:
        """Send credentials again and again, until this object is closed or its cluster over."""
        due, failures = next_refresh(expires_at, _now(), self._shortest_pause), OncePerCause()
        while await self._sleep_until(due):
            try:
                lent, missed = await self._send_lent()
                self._check_all_have(missed)
                expires_at = lent.expires_at
                failures.clear()
                due = next_refresh(expires_at, _now(), self._shortest_pause)
            except InterruptedError:
                return
            except Exception as error:
                # Whatever is in the way may pass, such as a network that is gone; it is logged once.
                name, at = self._health.name, f"{expires_at:%Y-%m-%dT%H:%M:%SZ}"
                level = failures.level("refresh")
                logger.log(level, "cluster %s: can't send new credentials in place of those that expire at %s: %s", name, at, error)
                logger.debug("cluster %s: the reason", name, exc_info=True)
                due = _now() + self._shortest_pause

    async def _sleep_until(self, due: datetime.datetime) -> bool:
        """Sleep by the clock on the wall, which goes on while a machine sleeps; return whether the cluster is still there."""
        while self._health.status in (Status.starting, Status.running) and self._health.ended is None:
            seconds = (due - _now()).total_seconds()
            if seconds <= 0:
                return True
            await asyncio.sleep(min(seconds, _LONGEST_SLEEP_SECONDS))
        return False

    async def _send(self, given: Mapping[str, Any]) -> Sequence[str]:
        """Send it, keep it, and return the names of the workers that don't have it."""
        answer = await self._connection.ask("terradask_confide", "private variables and credentials", sealed=_sealed(given))
        self.sent.add(given)
        missed: Sequence[str] = answer["missed"]
        return missed

    def _check_all_have(self, missed: Sequence[str]) -> None:
        if missed:
            raise WorkersUntold(
                f"{len(missed)} of the workers of cluster {self._health.name!r} don't have what was sent: they don't answer.",
                cluster=self._health.name,
                workers=missed,
                advice="send it again; those that are started again, and new ones, get it by themselves",
            )


def next_refresh(
    expires_at: datetime.datetime,
    now: datetime.datetime,
    shortest_pause: datetime.timedelta = datetime.timedelta(seconds=SHORTEST_PAUSE_SECONDS),
) -> datetime.datetime:
    """Return when to send others in place of credentials: after half of the time that is left."""
    return now + max((expires_at - now) / 2, shortest_pause)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _sealed(given: Mapping[str, Any]) -> Any:
    """Return what is sent in a wrapping: Dask logs its messages, with DEBUG, and shows of this only what it is."""
    return to_serialize(json.dumps(dict(given)).encode())
