"""The end of a cluster: a Ctrl-C doesn't cancel it, and the end of the process waits for it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from terradask._common.forked import left_to_parent
from terradask._common.loop_signals import termination_held
from terradask_modules.tracebacks import plain

if TYPE_CHECKING:
    from terradask._dask.provision import Provisioned
    from terradask._dask.threads import Threads

logger = logging.getLogger("terradask")

#: Between two checks that the loop that ends a cluster still runs, in seconds.
_POLL_SECONDS = 0.5


@dataclass(eq=False)
class Ending:
    """The end of one cluster: groups at zero, then the rest.

    Parameters
    ----------
    provisioned
        The cluster.
    verb
        The command that completes the end.
    loop
        Begins the end.
    """

    provisioned: Provisioned
    verb: str
    loop: asyncio.AbstractEventLoop
    #: Whether the groups are at zero, so that the hosts end by themselves.
    is_zero: bool = field(default=False, init=False)
    _is_begun: bool = field(default=False, init=False)
    #: Complete or not.
    _is_over: threading.Event = field(default_factory=threading.Event, init=False)

    def __post_init__(self) -> None:
        _UNDER_WAY.add(self)

    def begin(self, threads: Threads, end: Callable[[Ending], None]) -> Awaitable[None]:
        """Run a function in a thread, which ends the cluster; return what waits for that."""

        def run() -> None:
            try:
                end(self)
            finally:
                self.is_done()

        # Cancelled before a thread takes it, it would never run.
        ended = asyncio.shield(threads.call(run))
        self._is_begun = True
        return ended

    def leave(self) -> None:
        """Note that nothing waits for the end; it is over, unless it goes on in a thread."""
        if not self._is_begun:
            self.is_done()

    def is_done(self) -> None:
        """Note that the end is over, complete or not."""
        self._is_over.set()
        _UNDER_WAY.discard(self)

    def left(self) -> str:
        """Describe what an interruption leaves, with the command for it."""
        what = "its deployment; its hosts end by themselves" if self.is_zero else "what runs of it"
        return f"{what}. To end it: terradask {self.verb} {self.provisioned.deployment.name}"

    def warn_of_failure(self, leaving: asyncio.Task[None]) -> None:
        """Log why the end failed, if no caller waits for it."""
        if not leaving.cancelled() and (error := leaving.exception()):
            name = self.provisioned.deployment.name
            logger.warning(
                "cluster %s could not be ended (%s); left: %s", name, plain(str(error)), self.left()
            )

    def wait(self) -> None:
        """Wait for the end while the process ends. A Ctrl-C leaves the rest to a later command, and
        stops Terraform after its requests; the next one kills it.
        """
        cancel = self.provisioned.workspace.cancel
        is_left, is_stopped = False, True
        while True:
            try:
                while not self._is_over.wait(_POLL_SECONDS):
                    if not self._is_begun and not self.loop.is_running():
                        return
                    # It may not have come to Terraform yet.
                    is_stopped = is_stopped or cancel()
            except KeyboardInterrupt:
                is_stopped = cancel()
                if not is_left:
                    is_left = True
                    self._leave_rest()
            else:
                return

    def _leave_rest(self) -> None:
        provisioned = self.provisioned
        if not self.is_zero:
            with contextlib.suppress(Exception):
                provisioned.deployment.zero_run(provisioned.attachment.run.run_id)
                self.is_zero = True
        logger.warning("cluster %s: left: %s", provisioned.deployment.name, self.left())


def wait_for_endings() -> None:
    """Wait for the ends under way, before Python lets no more threads start."""
    with termination_held():
        for each in list(_UNDER_WAY):
            each.wait()


#: The ends that aren't over.
_UNDER_WAY = left_to_parent(Ending.is_done)
