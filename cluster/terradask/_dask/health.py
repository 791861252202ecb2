"""Track whether a cluster object is usable, and the reason if not."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from distributed.core import Status

from terradask.errors import ClusterClosed, ClusterError, SchedulerUnreachable

if TYPE_CHECKING:
    from terradask._clusters.deployment import Deployment
    from terradask._dask.threads import Call

logger = logging.getLogger("terradask")


class Health:
    """A cluster object's health: closed, ended, unreachable, or owned by the parent process."""

    def __init__(self, name: str) -> None:
        self.name = name
        #: Dask's status, which Dask also writes. Closed until Dask sets it.
        self.status = Status.closed
        #: The reason of the cluster's end.
        self.ended: ClusterError | None = None
        #: The error while the scheduler doesn't answer.
        self.unreachable: SchedulerUnreachable | None = None
        self._belongs_to_parent = False

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
        """Raise if this object is closed or belongs to the parent process."""
        if self._belongs_to_parent:
            raise ClusterClosed(
                f"This Cluster object of {self.name!r} belongs to the process that forked this "
                "one.",
                cluster=self.name,
                advice=f"attach from this process: Cluster.from_name({self.name!r})",
            )
        if self.status in (Status.closing, Status.closed, Status.failed):
            raise self.closed(f"make another: Cluster(name={self.name!r})")

    def closed(self, advice: str) -> ClusterClosed:
        """Return the error for a closed object."""
        return ClusterClosed(
            f"This Cluster object of {self.name!r} is closed.", cluster=self.name, advice=advice
        )

    def record_end(self, error: ClusterError) -> None:
        """Record the reason of the cluster's end, unless one is recorded already."""
        if self.ended is None:
            self.ended = error
            logger.warning("cluster %s: %s", self.name, error)

    def disown(self) -> None:
        """Leave the cluster to the parent process, after a fork."""
        self._belongs_to_parent = True
        self.status = Status.closed


@dataclass(eq=False, repr=False)
class RunCheck:
    """Compare a client's attached run with the current run in the bucket."""

    deployment: Deployment
    run_id: str
    health: Health
    call: Call

    async def note_if_over(self) -> None:
        """Record the end of the run and its reason, if the run is over."""
        current = await self.call(self.deployment.current_run)
        if self.health.ended is None and (current is None or current.run_id != self.run_id):
            self.health.record_end(await self.call(self.deployment.why_stopped, self.run_id))
