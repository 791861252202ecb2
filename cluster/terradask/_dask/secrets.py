"""Entrusting secrets to a cluster's processes: private environment variables, and credentials of the caller's."""

from __future__ import annotations

import asyncio
import datetime
import json
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from distributed.core import Status, rpc
from distributed.protocol import to_serialize

from terradask._aws.credentials import LentCredentials, lend
from terradask._dask.group_cluster import GroupCluster
from terradask._deployments.attach import Attachment
from terradask._deployments.private_envs import check_private_envs
from terradask.errors import VersionMismatch, WorkersUntold

logger = logging.getLogger("terradask")

#: Lent credentials are sent anew when half of their time is over, but not more often.
_SHORTEST_PAUSE_SECONDS = 60.0
#: A machine that has slept finds out within this time what is due.
_LONGEST_SLEEP_SECONDS = 15.0

#: A scheduler in another's place listens a moment before it takes anything.
_HAND_OVER_SECONDS = 60.0
_HAND_OVER_PAUSE_SECONDS = 1.0


class _Confided:
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


class ConfidingCluster(GroupCluster):
    """A `GroupCluster` that can be entrusted with secrets.

    They go to the scheduler over mutual TLS, which passes them on. Here they are kept in memory, for a scheduler in the other's place.
    """

    _credentials_duration_seconds: int | None = None
    _refreshing: asyncio.Task[None] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._confided = _Confided()
        super().__init__(*args, **kwargs)

    async def _scheduler_of(self, attachment: Attachment) -> rpc:
        """Return a new connection to a scheduler; a subclass knows how to dial."""
        raise AttributeError("a subclass does it")

    # ---- private environment variables ----------------------------------------------------------------------------

    def send_private_envs(self, env: Mapping[str, str]) -> Any:
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
        checked = check_private_envs(env)
        self._check_usable()
        return self.sync(self._send_private_envs, checked)

    async def _send_private_envs(self, env: Mapping[str, str]) -> None:
        self._check_all_told(await self._confide({"environ": env}))

    # ---- credentials ----------------------------------------------------------------------------------------------

    def send_credentials(self, automatic_refresh: bool = False) -> Any:
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
        self._check_usable()
        return self.sync(self._send_credentials, automatic_refresh)

    async def _send_credentials(self, automatic_refresh: bool) -> None:
        lent, missed = await self._lend()
        if automatic_refresh and self._refreshing is None:
            self._refreshing = asyncio.create_task(self._refresh_credentials(lent.expires_at))
        self._check_all_told(missed)

    async def _send_first_credentials(self) -> None:
        """Send credentials from now on. A worker that doesn't answer is told with the next ones, and keeps nobody waiting."""
        try:
            await self._send_credentials(automatic_refresh=True)
        except WorkersUntold as error:
            logger.warning("cluster %s: %s", self.name, error)

    async def _lend(self) -> tuple[LentCredentials, Sequence[str]]:
        lent: LentCredentials = await self._call(lend, self._deployment.aws, self._credentials_duration_seconds)
        return lent, await self._confide({"credentials": lent.document()})

    async def _refresh_credentials(self, expires_at: datetime.datetime) -> None:
        """Send credentials again and again, until this object is closed or its cluster over."""
        due, loud = next_refresh(expires_at, _now()), logging.WARNING
        while await self._sleep_until(due):
            try:
                lent, missed = await self._lend()
                self._check_all_told(missed)
                expires_at, loud = lent.expires_at, logging.WARNING
                due = next_refresh(expires_at, _now())
            except InterruptedError:
                return
            except Exception as error:
                # Whatever is in the way may pass, such as a network that is gone; it is told once.
                at = f"{expires_at:%Y-%m-%dT%H:%M:%SZ}"
                logger.log(loud, "cluster %s: can't send new credentials in place of those that expire at %s: %s", self.name, at, error)
                logger.debug("cluster %s: the reason", self.name, exc_info=True)
                due, loud = _now() + datetime.timedelta(seconds=_SHORTEST_PAUSE_SECONDS), logging.DEBUG

    async def _sleep_until(self, due: datetime.datetime) -> bool:
        """Sleep by the clock on the wall, which goes on while a machine sleeps; return whether the cluster is still there."""
        while self.status in (Status.starting, Status.running) and self._over is None:
            seconds = (due - _now()).total_seconds()
            if seconds <= 0:
                return True
            await asyncio.sleep(min(seconds, _LONGEST_SLEEP_SECONDS))
        return False

    async def _stop_refreshing(self) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)
            self._refreshing = None

    async def _stop_watching(self) -> None:
        await self._stop_refreshing()
        self._confided = _Confided()
        await super()._stop_watching()

    # ---- telling the scheduler ------------------------------------------------------------------------------------

    async def _confide(self, given: Mapping[str, Any]) -> Sequence[str]:
        """Send it, keep it, and return the names of the workers that could not be told."""
        heard = await self._ask_scheduler("terradask_confide", "private variables and credentials", sealed=_sealed(given))
        self._confided.add(given)
        missed: Sequence[str] = heard["missed"]
        return missed

    async def _ask_scheduler(self, operation: str, what: str, **arguments: Any) -> Any:
        """Return the scheduler's answer to an operation of terradask's own.

        Raises
        ------
        ClusterClosed, ClusterEnded, ClusterStopped
            When there is nobody to answer any more.
        VersionMismatch
            When the scheduler doesn't know the operation.
        """
        async with self._telling_whether_over():
            heard = await getattr(self.scheduler_comm, operation)(**arguments)
        if not heard:
            # A scheduler answers None to what it doesn't know.
            name = self._deployment.name
            raise VersionMismatch(
                f"The hosts of cluster {name!r} are of an older terradask, which knows no {what}.",
                cluster=name,
                advice="terradask apply network, then stop and start the cluster",
            )
        return heard

    @asynccontextmanager
    async def _telling_whether_over(self) -> AsyncIterator[None]:
        """Ask the scheduler something inside: where nobody answers, and that is because the cluster is over, say that."""
        self._check_usable()
        try:
            yield
        except OSError:
            await self._find_whether_over()
            self._check_usable()
            raise

    def _check_all_told(self, missed: Sequence[str]) -> None:
        if missed:
            raise WorkersUntold(
                f"{len(missed)} of the workers of cluster {self._deployment.name!r} don't have what was sent: they don't answer.",
                cluster=self._deployment.name,
                workers=missed,
                advice="send it again; those that are started again, and new ones, get it by themselves",
            )

    async def _hand_over(self, attachment: Attachment) -> None:
        """Send a scheduler in another's place what the other had been sent from here."""
        held = self._confided.given
        if not held:
            return
        try:
            async with asyncio.timeout(_HAND_OVER_SECONDS):
                while not await self._handed_over(held, attachment):
                    await asyncio.sleep(_HAND_OVER_PAUSE_SECONDS)
        except Exception:
            logger.debug("cluster %s: its new scheduler doesn't take what the old one had", self.name, exc_info=True)
            logger.warning(
                "cluster %s: its new scheduler could not be sent the private variables and credentials that the old one had; attach to it, "
                "and send them again",
                self.name,
            )

    async def _handed_over(self, held: Mapping[str, Any], attachment: Attachment) -> bool:
        try:
            async with await self._scheduler_of(attachment) as scheduler:
                return bool(await scheduler.terradask_confide(sealed=_sealed(held)))
        except OSError:
            return False


def next_refresh(expires_at: datetime.datetime, now: datetime.datetime) -> datetime.datetime:
    """Return when to send others in place of credentials: after half of the time that is left."""
    return now + max((expires_at - now) / 2, datetime.timedelta(seconds=_SHORTEST_PAUSE_SECONDS))


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _sealed(given: Mapping[str, Any]) -> Any:
    """Return what is sent in a wrapping: Dask logs its messages, with DEBUG, and shows of this only what it is."""
    return to_serialize(json.dumps(dict(given)).encode())
