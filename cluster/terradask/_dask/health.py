"""Whether a cluster object can be used, and why not."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from distributed.core import Status

from terradask._clusters.deployment import Deployment
from terradask._dask.threads import Call
from terradask.errors import ClusterClosed, ClusterError, SchedulerUnreachable

logger = logging.getLogger("terradask")


class Health:
    """A cluster object's health: closed, ended, unreachable, or owned by the parent process."""

    def __init__(self, name: str) -> None:
        self.name = name
        #: Dask's status, which Dask also writes. Closed until Dask sets it.
        self.status = Status.closed
        #: Why the cluster doesn't run any more.
        self.ended: ClusterError | None = None
        #: The error while the scheduler doesn't answer.
        self.unreachable: SchedulerUnreachable | None = None
        self._is_of_parent = False

    @property
    def is_running(self) -> bool:
        """Whether the object is attached, and neither closed nor closing."""
        return bool(self.status == Status.running)

    def check(self) -> None:
        """Raise if the cluster can't be used."""
        self.check_open()
        for error in (self.ended, self.unreachable):
            if error is not None:
                raise error.with_traceback(None)

    def check_open(self) -> None:
        """Raise if this object has left the cluster."""
        if self._is_of_parent:
            raise ClusterClosed(
                f"This Cluster object of {self.name!r} belongs to the process that forked this "
                "one.",
                cluster=self.name,
                advice=f"attach from here: Cluster.from_name({self.name!r})",
            )
        if self.status in (Status.closing, Status.closed, Status.failed):
            raise self.closed(f"make another: Cluster(name={self.name!r})")

    def closed(self, advice: str) -> ClusterClosed:
        """Return the error for an object that has left its cluster."""
        return ClusterClosed(
            f"This Cluster object of {self.name!r} is closed.", cluster=self.name, advice=advice
        )

    def lose(self, error: ClusterError) -> None:
        """Note why the cluster doesn't run any more, unless a reason is already known."""
        if self.ended is None:
            self.ended = error
            logger.warning("cluster %s: %s", self.name, error)

    def disown(self) -> None:
        """Note that this process was forked: the cluster belongs to its parent."""
        self._is_of_parent = True
        self.status = Status.closed


@dataclass(eq=False, repr=False)
class RunCheck:
    """Compares the run that a client is attached to with the one in the bucket."""

    deployment: Deployment
    run_id: str
    health: Health
    call: Call

    async def note_if_over(self) -> None:
        """Note whether the run is over, and why: it was stopped, or has ended by itself."""
        current = await self.call(self.deployment.current_run)
        if self.health.ended is None and (current is None or current.run_id != self.run_id):
            self.health.lose(await self.call(self.deployment.why_stopped, self.run_id))
