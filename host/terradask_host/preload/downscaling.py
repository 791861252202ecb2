"""The worker beside the scheduler is not the scheduler's to close: its host stays as long as the cluster does."""

from __future__ import annotations

from typing import Any

from terradask_host.rules.membership import EXTRA_WORKER_PREFIX


def keep_extra_worker(scheduler: Any) -> None:
    """Keep the worker on the scheduler's host out of what a scheduler suggests to close."""
    from distributed.diagnostics.plugin import SchedulerPlugin

    class KeepExtraWorker(SchedulerPlugin):  # type: ignore[misc]  # distributed carries no types here
        name = "terradask-extra-worker"

        def valid_workers_downscaling(self, scheduler: Any, workers: list[Any]) -> list[Any]:
            return [worker for worker in workers if not str(worker.name).startswith(EXTRA_WORKER_PREFIX)]

    scheduler.add_plugin(KeepExtraWorker())
