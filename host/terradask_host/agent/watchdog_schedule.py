"""Postpones the watchdog schedule: the scheduled action "desired 0" on each group."""

from __future__ import annotations

import datetime
import time

from terradask_host.agent.host import Host
from terradask_host.rules.lifetime import duration


class WatchdogSchedule:
    """Postpones the groups' scheduled action "desired 0" while the scheduler's event loop is alive.

    It is never later than the end of the cluster's lifetime, so that AWS enforces that too.
    """

    def __init__(self, host: Host, ends_at: datetime.datetime | None = None) -> None:
        self._host = host
        self._timing = host.config.timing
        self._ends_at = ends_at
        self._due = time.monotonic()
        self._alive_at = self._due
        #: When AWS sets the groups to zero, as this host last set it.
        self._fires_at: datetime.datetime | None = None

    def note_alive(self) -> None:
        """Note a sign of life."""
        self._alive_at = time.monotonic()

    def tick(self) -> float:
        """Postpone the schedule if that is due; return the seconds until it is due again.

        It isn't postponed for a scheduler that has hung for as long as the schedule is ahead.
        """
        now = time.monotonic()
        if now < self._due:
            return self._due - now
        if now - self._alive_at > self._timing.watchdog_ahead_seconds:
            self._host.log.info(
                "the scheduler gives no sign of life: the watchdog schedule is not postponed"
            )
            moved = True
        else:
            at = fires_at(
                datetime.datetime.now(datetime.UTC),
                self._timing.watchdog_ahead_seconds,
                self._ends_at,
            )
            moved = self._host.groups.move_watchdog(at)
            self._fires_at = at if moved else self._fires_at
        pause = self._timing.watchdog_move_seconds
        self._due = now + (pause if moved else min(pause, 60.0))
        return self._due - now

    def why_fired(self, now: datetime.datetime) -> str | None:
        """Return why AWS has set the groups to zero, for a host that it shuts down; else None."""
        if self._fires_at is None or now < self._fires_at:
            return None
        silent_seconds = time.monotonic() - self._alive_at
        why = (
            f"the scheduler gave no sign of life for {_rounded(silent_seconds)}"
            if silent_seconds > self._timing.watchdog_ahead_seconds
            else "its host could not postpone it"
        )
        return f"AWS's watchdog schedule has set all groups to 0: {why}"


def _rounded(seconds: float) -> str:
    return duration(60 * round(seconds / 60) if seconds >= 60 else round(seconds))


def fires_at(
    now: datetime.datetime, ahead_seconds: float, ends_at: datetime.datetime | None
) -> datetime.datetime:
    """Return the time to move the schedule to."""
    ahead = now + datetime.timedelta(seconds=ahead_seconds)
    return ahead if ends_at is None else min(ahead, ends_at)
