"""A process beside the scheduler on its host, such as a worker or a notebook server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from terradask_host.agent.event_queue import (
    ChildEnded,
    ChildMessage,
    EventQueue,
    Stop,
    StopRequested,
)
from terradask_host.agent.host import Host, next_event
from terradask_host.rules.policy import Exit


class SideProcess:
    """Runs a process on a thread, with its own events, for as long as the scheduler's process.

    A crash restarts it, as often as the scheduler; then the cluster continues without it. After an
    orderly end it isn't restarted.

    Parameters
    ----------
    role
        The process's role.
    name
        Its name in log lines.
    document
        Returns a new start document.
    on_message
        Receives its messages.
    on_ended
        Is called after its end, with the exit.
    """

    def __init__(
        self,
        host: Host,
        role: str,
        name: str,
        document: Callable[[], Mapping[str, Any]],
        *,
        on_message: Callable[[ChildMessage], None] | None = None,
        on_ended: Callable[[Exit], None] | None = None,
    ) -> None:
        self._host = host
        self._role, self._name = role, name
        self._document = document
        self._on_said, self._on_ended = on_message, on_ended
        self._events = EventQueue()
        self._thread = threading.Thread(target=self._run, name=role, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the process at once."""
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
        self._host.log.info(f"the {self._name} failed too often; the cluster continues without it")

    def _live(self) -> Exit | None:
        """Run one process to its end; None when `close` ended it."""
        child = self._host.spawn(self._role, self._events)
        try:
            child.send(self._document())
            while True:
                event = next_event(self._events, child, 60.0)
                if isinstance(event, Stop):
                    return None
                if isinstance(event, ChildEnded):
                    return event.end
                if isinstance(event, ChildMessage) and self._on_said is not None:
                    self._on_said(event)
        finally:
            child.kill()
