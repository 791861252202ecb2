"""A scheduler's subscriptions: workers for several cluster managers, task output for clients.

Dask uses one plugin name for all watching cluster managers, so that a second one silently cuts off
the first, which then lists workers that are long gone. Here each subscription has its own name.

Every Dask client subscribes to output and warnings of tasks when it connects, and unpickles the
warnings: any task could run code in it. Here clients get them only on request.
"""

from __future__ import annotations

import itertools
from typing import Any

_numbers = itertools.count(1)

_PREFIX = "terradask-watch-"


# As a patch: host/upstream/several-cluster-managers.patch
def allow_several(scheduler: Any) -> set[str]:
    """Let every subscribed cluster manager keep its subscription.

    Return a set that collects their names: one may be gone before the next check.
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
    """Return the subscriptions whose cluster managers are connected; drop the others."""
    watches = {
        name: plugin for name, plugin in scheduler.plugins.items() if name.startswith(_PREFIX)
    }
    closed = {name for name, plugin in watches.items() if plugin.bcomm.closed()}
    for name in closed:
        scheduler.remove_plugin(name=name)
    return frozenset(watches.keys() - closed)


#: Dask's topics of `distributed.print` and `distributed.warn`.
TOPICS = frozenset({"print", "warn"})


# As a patch: host/upstream/warnings-without-pickle.patch
def withhold_task_output(scheduler: Any) -> None:
    """Ignore subscriptions to these topics other than by `show_task_output`."""

    def subscribe(topic: str, client: str) -> None:
        if topic not in TOPICS:
            scheduler.subscribe_topic(topic, client)

    scheduler.stream_handlers["subscribe-topic"] = subscribe


def show_task_output(scheduler: Any, client: str) -> None:
    """Send a client the messages of both topics from now on."""
    for topic in TOPICS:
        scheduler.subscribe_topic(topic, client)
