"""Allow several cluster managers to watch one scheduler.

Dask uses the same plugin name for all watching cluster managers, so that a second one silently cuts
off the first, which then lists workers that are long gone. Here each subscription has its own name.
"""

from __future__ import annotations

import itertools
from typing import Any

_numbers = itertools.count(1)

_PREFIX = "terradask-watch-"


def allow_several(scheduler: Any) -> set[str]:
    """Let every cluster manager that subscribes to a scheduler's workers keep its subscription.

    Return a set to which the name of each is added: it may be gone before it is looked for.
    """
    from distributed.scheduler import WorkerStatusPlugin

    came: set[str] = set()

    class Watch(WorkerStatusPlugin):  # type: ignore[misc]  # distributed carries no types here
        def __init__(self, scheduler: Any, comm: Any) -> None:
            self.name = f"{_PREFIX}{next(_numbers)}"
            super().__init__(scheduler, comm)
            came.add(self.name)

    def subscribe(comm: Any) -> dict[str, Any]:
        Watch(scheduler, comm)
        identity: dict[str, Any] = scheduler.identity()
        for worker in identity["workers"].values():
            worker.pop("metrics", None)
            worker.pop("last_seen", None)
        return identity

    scheduler.handlers["subscribe_worker_status"] = subscribe
    return came


def watching(scheduler: Any) -> frozenset[str]:
    """Return the names of the subscriptions whose cluster managers are connected; drop
    the others.
    """
    watches = {
        name: plugin for name, plugin in scheduler.plugins.items() if name.startswith(_PREFIX)
    }
    closed = {name for name, plugin in watches.items() if plugin.bcomm.closed()}
    for name in closed:
        scheduler.remove_plugin(name=name)
    return frozenset(watches.keys() - closed)
