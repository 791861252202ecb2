"""Processes beside the scheduler on its host: a worker, and a notebook server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from terradask_host.agent.child import DaskChild
from terradask_host.agent.event_queue import (
    ChildEnded,
    ChildMessage,
    EventQueue,
    Stop,
    StopRequested,
)
from terradask_host.agent.host import Host, next_event
from terradask_host.agent.launch_documents import extra_worker_document, jupyter_document
from terradask_host.rules.policy import Exit


class SideProcess:
    """Runs a process on a thread, with its own events, for as long as the scheduler's process.

    A crash restarts it, as often as the scheduler; then the cluster continues without it. After an
    orderly end it isn't restarted. `name` is for log lines, `document` returns a new start
    document, `on_message` receives its messages, and `on_ended` gets its exit after its end.
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


def start_side_processes(host: Host, scheduler: DaskChild) -> list[SideProcess]:
    """Start the processes that the cluster's structure has beside this running scheduler."""
    wanted = host.cluster.scheduler
    address = f"tls://{host.identity.private_address}:{wanted.port}"
    beside = []
    if wanted.extra_worker:
        beside.append(_worker(host, address))
    if wanted.jupyter:
        beside.append(_notebook_server(host, address, scheduler))
    return beside


def _worker(host: Host, address: str) -> SideProcess:
    document = extra_worker_document(host.config, host.identity, host.cluster, address, host.keys)
    return SideProcess(
        host, "worker", "worker beside the scheduler", lambda: host.with_proof(document)
    )


def _notebook_server(host: Host, address: str, scheduler: DaskChild) -> SideProcess:
    """Start the notebook server, and report its open kernels to the scheduler's process."""
    # Hosts with a given Python are processes of the embedded AWS.
    document = jupyter_document(
        host.config.paths, address, allow_root=host.config.python is not None
    )

    def report_open(kernels: int) -> None:
        scheduler.send({"do": "kernels", "open": kernels})

    def take(message: ChildMessage) -> None:
        if message.event == "kernels":
            report_open(message.facts["open"])

    def note(end: Exit) -> None:
        report_open(0)
        host.reporter.note(host.identity.group, "ended", f"the notebook server: {end.describe()}")

    return SideProcess(
        host, "jupyter", "notebook server", lambda: document, on_message=take, on_ended=note
    )
