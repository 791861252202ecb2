"""A worker beside the scheduler, on the scheduler's host: for small clusters, whose scheduler has
little to do.
"""

from __future__ import annotations

import threading

from terradask_host.agent.event_queue import EventQueue, Stop, StopRequested
from terradask_host.agent.host import Host, next_event
from terradask_host.agent.launch_documents import extra_worker_document
from terradask_host.rules.policy import Exit


class ExtraWorker:
    """Runs the worker on a thread, with events of its own, for as long as the scheduler's process
    lives.

    One that crashes is started again as often as any other; then the cluster does without. One that
    is retired stays away.
    """

    def __init__(self, host: Host, scheduler: str) -> None:
        self._host = host
        self._document = extra_worker_document(
            host.config, host.identity, host.cluster, scheduler, host.keys
        )
        self._events = EventQueue()
        self._thread = threading.Thread(target=self._run, name="extra-worker", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it at once: without its scheduler it is nothing."""
        self._events.put(Stop("the scheduler is gone"))
        self._thread.join()

    def _run(self) -> None:
        timing = self._host.config.timing
        for crashes in range(timing.dask_restarts + 1):
            end = self._live()
            if end is None or end.code == 0:
                return
            self._host.log.info(f"the worker beside the scheduler ended: {end.describe()}")
            try:
                self._events.pause(timing.dask_restart_pause_seconds * 2**crashes)
            except StopRequested:
                return
        self._host.log.info(
            "the worker beside the scheduler died too often; the cluster goes on without it"
        )

    def _live(self) -> Exit | None:
        """Run one process to its end; None when it was ended from here."""
        child = self._host.spawn("worker", self._events)
        try:
            child.send(self._host.with_proof(self._document))
            while True:
                received = next_event(self._events, child, 60.0)
                if received.stop:
                    return None
                if received.ended:
                    return received.ended
        finally:
            child.kill()
