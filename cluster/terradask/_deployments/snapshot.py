"""What a client reads of a cluster before it decides what to do: four small documents, side by side."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from terradask._deployments.deployment import Deployment
from terradask._deployments.documents import Run


@dataclass(frozen=True)
class Snapshot:
    """How a cluster was found."""

    #: Whether its deployment shall go.
    closing: bool
    #: Whether it is deployed.
    exists: bool
    #: The run that was started last, be it over by now; None when it was stopped.
    run: Run | None


def take_snapshot(deployment: Deployment, also: Callable[[], object]) -> Snapshot:
    """Read a cluster's documents."""

    def beside() -> None:
        with contextlib.suppress(Exception):
            also()

    with ThreadPoolExecutor(4) as pool:
        closing = pool.submit(lambda: deployment.marked_closing)
        exists = pool.submit(lambda: deployment.exists)
        run = pool.submit(deployment.run)
        other = pool.submit(beside)
        look = Snapshot(closing.result(), exists.result(), run.result())
        other.result()
    return look
