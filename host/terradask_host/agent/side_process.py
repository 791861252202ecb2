"""A process beside the scheduler, on its host, such as a worker or a notebook server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from terradask_host.agent.event_queue import (
    ChildEnded,
    ChildSaid,
    EventQueue,
    Stop,
    StopRequested,
)
from terradask_host.agent.host import Host, next_event
from terradask_host.rules.policy import Exit


class SideProcess:
    """Runs the process on a thread, with events of its own, for as long as the scheduler's process
    lives.

    One that crashes is started again as often as the scheduler; then the cluster does without. One
    that ends in order stays away.

    Parameters
    ----------
    host
        The scheduler's host.
    role
        What the process serves.
    name
        What log lines call it.
    document
        Returns how to start it, each time anew.
    on_said
        Gets what it reports; None: nothing is of interest.
    on_ended
        Is called when it has ended, with how.
    """

    def __init__(
        self,
        host: Host,
        role: str,
        name: str,
        document: Callable[[], Mapping[str, Any]],
        *,
        on_said: Callable[[ChildSaid], None] | None = None,
        on_ended: Callable[[Exit], None] | None = None,
    ) -> None:
        self._host = host
        self._role, self._name = role, name
        self._document = document
        self._on_said, self._on_ended = on_said, on_ended
        self._events = EventQueue()
        self._thread = threading.Thread(target=self._run, name=role, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it at once: without its scheduler it is nothing."""
        self._events.put(Stop("the scheduler is gone"))
        self._thread.join()

    def _run(self) -> None:
        timing = self._host.config.timing
        for crashes in range(timing.dask_restarts + 1):
            end = self._live()
            if end is None:
                return
            if self._on_ended is not None:
                self._on_ended(end)
            if end.code == 0:
                return
            self._host.log.info(f"the {self._name} ended: {end.describe()}")
            try:
                self._events.pause(timing.dask_restart_pause_seconds * 2**crashes)
            except StopRequested:
                return
        self._host.log.info(f"the {self._name} died too often; the cluster goes on without it")

    def _live(self) -> Exit | None:
        """Run one process to its end; None when it was ended from here."""
        child = self._host.spawn(self._role, self._events)
        try:
            child.send(self._document())
            while True:
                event = next_event(self._events, child, 60.0)
                if isinstance(event, Stop):
                    return None
                if isinstance(event, ChildEnded):
                    return event.end
                if isinstance(event, ChildSaid) and self._on_said is not None:
                    self._on_said(event)
        finally:
            child.kill()
