"""What tasks print and warn stays on the cluster until a client asks for it.

Every client of Dask's subscribes to both topics when it connects, and unpickles the warnings that
it gets: any task could run code in it.
"""

from __future__ import annotations

from typing import Any

#: Dask's topics of `distributed.print` and `distributed.warn`.
TOPICS = frozenset({"print", "warn"})


def withhold_task_output(scheduler: Any) -> None:
    """Ignore subscriptions to the topics that don't come by `show_task_output`."""

    def subscribe(topic: str, client: str) -> None:
        if topic not in TOPICS:
            scheduler.subscribe_topic(topic, client)

    scheduler.stream_handlers["subscribe-topic"] = subscribe


def show_task_output(scheduler: Any, client: str) -> None:
    """Send a client what comes by both topics, from now on."""
    for topic in TOPICS:
        scheduler.subscribe_topic(topic, client)
