"""Exclude the worker on the scheduler's host from downscaling: its host lives as long as the
cluster.
"""

from __future__ import annotations

from typing import Any

from terradask_host.rules.membership import EXTRA_WORKER_PREFIX


def keep_extra_worker(scheduler: Any) -> None:
    """Exclude the worker on the scheduler's host from the workers that the scheduler suggests to
    close.
    """
    from distributed.diagnostics.plugin import SchedulerPlugin

    class KeepExtraWorker(SchedulerPlugin):  # type: ignore[misc]  # distributed carries no types here
        name = "terradask-extra-worker"

        def valid_workers_downscaling(self, scheduler: Any, workers: list[Any]) -> list[Any]:
            return [
                worker for worker in workers if not str(worker.name).startswith(EXTRA_WORKER_PREFIX)
            ]

    scheduler.add_plugin(KeepExtraWorker())
