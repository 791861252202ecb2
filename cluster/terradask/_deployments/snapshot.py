"""What a client reads of a cluster before it decides what to do: small documents, in parallel."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from terradask._common.side_by_side import side_by_side
from terradask._deployments.deployment import Deployment
from terradask._deployments.lost import not_found, raised_groups
from terradask._deployments.place import ClusterPlace
from terradask._deployments.record import read_scheduler
from terradask_host.documents import Run, SchedulerAddress

#: State of a cluster's name.
Found = Literal["nothing", "stopped", "running"]


@dataclass(frozen=True)
class Snapshot:
    """A cluster's documents at one moment."""

    #: Whether the deployment is marked for destruction.
    closing: bool
    #: Whether it is deployed, and whether its run goes on.
    found: Found
    #: The run that was started last, even if it has ended; None if the cluster was stopped.
    run: Run | None


def take_snapshot(deployment: Deployment, also: Callable[[], object]) -> Snapshot:
    """Read a cluster's documents, and run `also` at the same time. Raises `ClusterNotFound` for one
    that runs and has lost its ``cluster.json``: a client that made it anew would end it, too.
    """

    def run_also() -> None:
        with contextlib.suppress(Exception):
            also()

    def scheduler_if_read() -> SchedulerAddress | None:
        with contextlib.suppress(Exception):
            return read_scheduler(deployment.objects)
        return None

    reads: list[Callable[[], Any]] = [
        lambda: deployment.marked_closing,
        lambda: deployment.exists,
        deployment.run,
        scheduler_if_read,
        run_also,
    ]
    closing, exists, run, scheduler, _ = side_by_side(reads, len(reads))
    if not exists:
        if run is not None and not closing:
            place = ClusterPlace.of(deployment.bucket, deployment.aws.region, deployment.name)
            if raised := raised_groups(deployment.aws, place):
                raise not_found(place, raised)
        return Snapshot(closing, "nothing", run)
    goes_on = run is not None and deployment.goes_on(run, scheduler)
    return Snapshot(closing, "running" if goes_on else "stopped", run)
