"""What tasks print and warn stays on the cluster until a client asks for it.

Every client of Dask's subscribes to both topics when it connects, and unpickles the warnings that
it gets: any task could run code in it.
"""

from __future__ import annotations

from typing import Any

#: The operation by which a client asks for both; part of what clients rely on.
TASK_OUTPUT_OPERATION = "terradask_task_output"

#: Dask's topics of `distributed.print` and `distributed.warn`.
TOPICS = frozenset({"print", "warn"})


def withhold_task_output(scheduler: Any) -> None:
    """Ignore subscriptions to the topics that don't come by `TASK_OUTPUT_OPERATION`."""

    def subscribe(topic: str, client: str) -> None:
        if topic not in TOPICS:
            scheduler.subscribe_topic(topic, client)

    def send_to(client: str) -> bool:
        for topic in TOPICS:
            scheduler.subscribe_topic(topic, client)
        # An older host would answer None.
        return True

    scheduler.stream_handlers["subscribe-topic"] = subscribe
    scheduler.handlers[TASK_OUTPUT_OPERATION] = send_to
