"""Several cluster managers watch one scheduler.

Dask names the plugin that feeds a watching cluster manager the same for all of them, so that a second one silently cuts off the
first, which then believes in workers that are long gone. Here each watch has a name of its own.
"""

from __future__ import annotations

import itertools
from typing import Any

_numbers = itertools.count(1)

_PREFIX = "terradask-watch-"


def allow_several(scheduler: Any) -> None:
    """Let every cluster manager that subscribes to a scheduler's workers keep its subscription."""
    from distributed.scheduler import WorkerStatusPlugin

    class Watch(WorkerStatusPlugin):  # type: ignore[misc]  # distributed carries no types here
        def __init__(self, scheduler: Any, comm: Any) -> None:
            self.name = f"{_PREFIX}{next(_numbers)}"
            super().__init__(scheduler, comm)

    def subscribe(comm: Any) -> dict[str, Any]:
        Watch(scheduler, comm)
        identity: dict[str, Any] = scheduler.identity()
        for worker in identity["workers"].values():
            worker.pop("metrics", None)
            worker.pop("last_seen", None)
        return identity

    scheduler.handlers["subscribe_worker_status"] = subscribe


def watching(scheduler: Any) -> frozenset[str]:
    """Return the names of the subscriptions whose cluster managers are connected; those of others are dropped."""
    watches = {name: plugin for name, plugin in scheduler.plugins.items() if name.startswith(_PREFIX)}
    closed = {name for name, plugin in watches.items() if plugin.bcomm.closed()}
    for name in closed:
        scheduler.remove_plugin(name=name)
    return frozenset(watches.keys() - closed)
