"""What both roles do alike when the Dask process has crashed, or the host is asked to stop."""

from __future__ import annotations

import time

from terradask_host import states
from terradask_host.child import DaskChild
from terradask_host.errors import DaskFailed
from terradask_host.host import Host, hear
from terradask_host.mailbox import StopRequested
from terradask_host.policy import Exit


class Crashes:
    """Counts the crashes of the Dask process in one life of the host program.

    Parameters
    ----------
    host
        Whose process.
    """

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
        self._host.book.say(f"restart {self.count} of {self._timing.dask_restarts} in {pause:.0f} s")
        self._host.mailbox.pause(pause)

    def too_many(self, end: Exit) -> DaskFailed:
        """Return the error that says that there is no further restart."""
        role = self._host.identity.role
        return DaskFailed(f"The Dask {role} died {self.count + 1} times; the last time with {end.describe()}")


def leave_on_stop(host: Host, child: DaskChild, stop: StopRequested) -> None:
    """Let the Dask process close in order, for as long as the host may take to leave, and report that."""
    reason = f"asked to stop by {stop.signal_name}"
    host.reporter.enter(states.LEAVING, reason)
    _close_in_order(host, child)
    host.reporter.enter(states.LEFT, reason)


def _close_in_order(host: Host, child: DaskChild) -> None:
    child.send({"do": "leave"})
    end = time.monotonic() + host.config.timing.leave_seconds
    while (left := end - time.monotonic()) > 0:
        if hear(host, child, left).ended:
            return
    host.book.say("the Dask process did not close in time and is ended")
