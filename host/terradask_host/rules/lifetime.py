"""The conditions for a cluster's end, as pure functions: no AWS, no Dask, no clock."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace
from typing import Self

from terradask_host.documents import MOST_LIFETIME_SECONDS, LifetimePolicy


@dataclass(frozen=True)
class Observation:
    """The state of a scheduler at one moment.

    Parameters
    ----------
    at
        Time on the monotonic clock, in seconds.
    idle_seconds
        How long Dask has had no work; None while it has some.
    uploading
        Whether a client sends more than heartbeats.
    present
        Unique names of connected clients and watching cluster managers.
    came
        Names that connected since the last observation, even if they are gone.
    open_kernels
        Kernels of the notebook server that run a cell, or have a page connected.
    left_work
        Whether there is work without a waiting client: of ``fire_and_forget``, of published
        datasets, of jobs.
    holds_published
        Whether a published dataset exists.
    """

    at: float
    idle_seconds: float | None
    uploading: bool = False
    present: frozenset[str] = frozenset()
    came: frozenset[str] = frozenset()
    open_kernels: int = 0
    left_work: bool = False
    holds_published: bool = False


#: Between observations further apart than this the event loop was blocked, and activity is unknown.
BLOCKED_SECONDS = 10.0


@dataclass(frozen=True)
class Activity:
    """The result of all observations so far; all times on the monotonic clock.

    Parameters
    ----------
    seen_at
        The last observation; at first the scheduler's start.
    active_at
        When there was work, or a client came or went.
    attended_at
        When a client was connected, or had left work behind.
    left_at
        When the last connection ended. None: there was none yet, or there is one.
    present
        The connections at the last observation.
    holds_published
        Whether a published dataset existed then.
    """

    seen_at: float
    active_at: float
    attended_at: float
    left_at: float | None = None
    present: frozenset[str] = frozenset()
    holds_published: bool = False

    @classmethod
    def begin(cls, at: float) -> Self:
        """Return the activity of a new scheduler."""
        return cls(at, at, at)

    def after(self, seen: Observation) -> Self:
        """Return the activity after another observation."""
        # Long graphs block the loop while they are unpickled: that is work, and a client may have
        # tried to connect meanwhile.
        blocked = seen.at - self.seen_at > BLOCKED_SECONDS
        busy = (
            seen.idle_seconds is None
            or seen.uploading
            or blocked
            or seen.present != self.present
            or bool(seen.came)
            or seen.open_kernels > 0
        )
        attended = (
            bool(seen.present | seen.came) or seen.open_kernels > 0 or seen.left_work or blocked
        )
        gone = bool(self.present | seen.came) and not seen.present
        return replace(
            self,
            seen_at=seen.at,
            active_at=seen.at
            if busy
            else max(self.active_at, seen.at - (seen.idle_seconds or 0.0)),
            attended_at=seen.at if attended else self.attended_at,
            left_at=seen.at if gone else (None if seen.present else self.left_at),
            present=seen.present,
            holds_published=seen.holds_published,
        )


def end_reason(
    activity: Activity,
    policy: LifetimePolicy,
    now: datetime.datetime,
    *,
    first_client_seconds: float = 120.0,
) -> str | None:
    """Return why a cluster ends; None while it continues.

    The wait for the first client is at least `first_client_seconds`: the one that starts a cluster
    must first notice and reach its scheduler.
    """

    def clock(at: float) -> str:
        return (now - datetime.timedelta(seconds=activity.seen_at - at)).strftime(
            "%Y-%m-%dT%H:%M:%SZ"
        )

    if activity.present:
        who = f"{len(activity.present)} connected"
    else:
        who = (
            "no client ever came"
            if activity.left_at is None
            else f"the last client left at {clock(activity.left_at)}"
        )
    patience, idle_seconds = policy.no_client_timeout_seconds, policy.idle_timeout_seconds
    if activity.holds_published and idle_seconds is not None:
        # It waits for another client, until the cluster has been idle for too long.
        patience = None
    if activity.left_at is None and not activity.present:
        patience = None if patience is None else max(patience, first_client_seconds)
        idle_seconds = None if idle_seconds is None else max(idle_seconds, first_client_seconds)
    if patience is not None and activity.seen_at - activity.attended_at >= patience:
        return f"no client for {duration(patience)}, since {clock(activity.attended_at)}: {who}"
    if idle_seconds is not None and activity.seen_at - activity.active_at >= idle_seconds:
        return (
            f"idle for {duration(idle_seconds)}, since {clock(activity.active_at)}: no task, {who}"
        )
    return None


#: A near end is reported when half of the time is over, but not earlier than this.
_NEAR_SECONDS = 600.0
#: Shorter times are over before a report of theirs helps.
_LEAST_REPORTED_SECONDS = 120.0


def near_end(
    activity: Activity, policy: LifetimePolicy, now: datetime.datetime
) -> tuple[datetime.datetime, str] | None:
    """Return when a cluster will end unless work or a client comes, and why; None if that isn't
    near.
    """
    waits = [
        (policy.idle_timeout_seconds, activity.active_at, "idle"),
        (
            None if activity.holds_published else policy.no_client_timeout_seconds,
            activity.attended_at,
            "no client",
        ),
    ]
    found = []
    for seconds, since, why in waits:
        if seconds is None or seconds < _LEAST_REPORTED_SECONDS:
            continue
        left = since + seconds - activity.seen_at
        if left <= min(seconds / 2, _NEAR_SECONDS):
            began = now - datetime.timedelta(seconds=activity.seen_at - since)
            end = now + datetime.timedelta(seconds=left)
            found.append((end, f"{why} since {began:%Y-%m-%dT%H:%M:%SZ}"))
    return min(found, default=None)


def effective_policy(policy: LifetimePolicy, idle_timeout_seconds: float | None) -> LifetimePolicy:
    """Return the effective policy beside an idle timeout of Dask's own, or none."""
    yields = idle_timeout_seconds and policy.idle_timeout_yields
    return replace(policy, idle_timeout_seconds=None) if yields else policy


def ends_at(policy: LifetimePolicy | None, started_at: str) -> datetime.datetime:
    """Return when a run ends in any case: at the latest with its certificates."""
    seconds = (policy or LifetimePolicy()).max_lifetime_seconds or MOST_LIFETIME_SECONDS
    lifetime = datetime.timedelta(seconds=min(seconds, MOST_LIFETIME_SECONDS))
    return datetime.datetime.fromisoformat(started_at) + lifetime


def lifetime_end_reason(ends: datetime.datetime, now: datetime.datetime) -> str | None:
    """Return the reason if a cluster's lifetime is over, else None."""
    if now < ends:
        return None
    return f"its lifetime was over at {ends.strftime('%Y-%m-%dT%H:%M:%SZ')} (max_lifetime)"


def duration(seconds: float) -> str:
    """Format a duration: ``20 minutes``, ``90 seconds``, ``1.5 seconds``, ``30 days``."""
    for unit, length in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds >= length and seconds % length == 0:
            return _counted(seconds / length, unit)
    return _counted(seconds, "second")


def _counted(number: float, unit: str) -> str:
    return f"{number:g} {unit}{'' if number == 1 else 's'}"
