"""The watchdog schedule: the scheduled action "desired 0" on each group, which the scheduler's host
postpones.
"""

from __future__ import annotations

import datetime
import time

from terradask_host.agent.host import Host
from terradask_host.rules.lifetime import duration


class WatchdogSchedule:
    """Moves the groups' scheduled action "desired 0" on, as long as the scheduler's event loop
    gives signs of life.

    It never lies behind the end of the cluster's lifetime, so that AWS keeps that too.
    """

    def __init__(self, host: Host, ends_at: datetime.datetime | None = None) -> None:
        self._host = host
        self._timing = host.config.timing
        self._ends_at = ends_at
        self._due = time.monotonic()
        self._alive_at = self._due
        #: When AWS sets the groups to zero, as far as it was put off from here.
        self._fires_at: datetime.datetime | None = None

    def note_alive(self) -> None:
        """Note a sign of life."""
        self._alive_at = time.monotonic()

    def tick(self) -> float:
        """Move the schedule when that is due; return the seconds until it is due again.

        A scheduler that has hung for as long as the schedule is ahead keeps the cluster alive no
        longer.
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
        """Return why AWS has set the groups to zero, for a host that it shuts down; None if it
        hasn't yet.
        """
        if self._fires_at is None or now < self._fires_at:
            return None
        silent_seconds = time.monotonic() - self._alive_at
        why = (
            f"the scheduler gave no sign of life for {_about(silent_seconds)}"
            if silent_seconds > self._timing.watchdog_ahead_seconds
            else "its host could not postpone it"
        )
        return f"AWS's watchdog schedule has set all groups to 0: {why}"


def _about(seconds: float) -> str:
    return duration(60 * round(seconds / 60) if seconds >= 60 else round(seconds))


def fires_at(
    now: datetime.datetime, ahead_seconds: float, ends_at: datetime.datetime | None
) -> datetime.datetime:
    """Return when the groups go to zero if the schedule is moved now."""
    ahead = now + datetime.timedelta(seconds=ahead_seconds)
    return ahead if ends_at is None else min(ahead, ends_at)
