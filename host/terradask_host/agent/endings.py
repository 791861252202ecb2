"""What both roles do alike when the Dask process has crashed, or the host is asked to stop."""

from __future__ import annotations

import time
from collections.abc import Callable

from terradask_host import states
from terradask_host.agent.child import DaskChild
from terradask_host.agent.event_queue import ChildEnded, ChildSaid, Stop
from terradask_host.agent.host import Host, next_event
from terradask_host.errors import DaskFailed
from terradask_host.rules.policy import Exit


class Crashes:
    """Counts the crashes of the Dask process in one life of the host program."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._timing = host.config.timing
        self.count = 0

    def pause_before_restart(self) -> None:
        """Count a crash and wait; each time twice as long.

        Raises
        ------
        StopRequested
            When the host is asked to stop meanwhile.
        """
        pause = self._timing.dask_restart_pause_seconds * 2**self.count
        self.count += 1
        self._host.log.info(
            f"restart {self.count} of {self._timing.dask_restarts} in {pause:.0f} s"
        )
        self._host.events.pause(pause)

    def too_many(self, end: Exit) -> DaskFailed:
        """Return the error that says that there is no further restart."""
        role = self._host.identity.role
        return DaskFailed(
            f"The Dask {role} died {self.count + 1} times; the last time with {end.describe()}"
        )


#: Takes what a Dask process says while it closes.
Take = Callable[[ChildSaid], None]


def leave_on_stop(host: Host, child: DaskChild, stop: Stop, take: Take | None = None) -> None:
    """Let the Dask process close in order, for as long as the host may take to leave, and report
    that.

    An instance that AWS takes back ends itself as soon as its data has moved: its group replaces it
    then, not two minutes later.
    """
    host.reporter.enter(states.LEAVING, stop.reason)
    close_in_order(host, child, stop.seconds_left(host.config.timing.leave_seconds), take)
    if stop.interrupted:
        host.groups.leave(host.identity.instance_id, replaced=True)
    host.reporter.enter(states.LEFT, stop.reason)


def close_in_order(host: Host, child: DaskChild, seconds: float, take: Take | None = None) -> None:
    """Let the Dask process close in order, for so long at most."""
    child.send({"do": "leave", "seconds": seconds})
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        event = next_event(host.events, child, left)
        if isinstance(event, ChildSaid) and take is not None:
            take(event)
        if isinstance(event, ChildEnded):
            return
    host.log.info("the Dask process did not close in time and is ended")
