"""The state that both roles share: facts, access to AWS, and the Dask process."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from terradask_host import states
from terradask_host.agent.aws import Aws
from terradask_host.agent.bound_run import BoundRun
from terradask_host.agent.child import DaskChild, child_environ
from terradask_host.agent.dask_process import DaskProgram
from terradask_host.agent.event_queue import (
    ChildEnded,
    ChildMessage,
    Event,
    EventQueue,
    Failed,
    Stop,
)
from terradask_host.agent.groups import ClusterGroups
from terradask_host.agent.instance_proofs import prove
from terradask_host.agent.keys import KeyFiles
from terradask_host.agent.launch_documents import prepare_document
from terradask_host.agent.logs import HostLog
from terradask_host.agent.objects import ClusterObjects
from terradask_host.agent.report import Reporter
from terradask_host.config import HostConfig
from terradask_host.documents import Run
from terradask_host.errors import DaskFailed, DistributedTooOld, VersionsDiffer
from terradask_host.metadata import Identity
from terradask_host.rules.instance_proof import audience_of
from terradask_host.rules.policy import LEAST_DISTRIBUTED, Exit, is_too_old
from terradask_host.structure import Structure


@dataclass(frozen=True)
class Host:
    """A host that knows its cluster, its group and its run, which the secret has confirmed."""

    config: HostConfig
    identity: Identity
    bound: BoundRun
    keys: KeyFiles
    program: DaskProgram
    aws: Aws
    objects: ClusterObjects
    groups: ClusterGroups
    reporter: Reporter
    log: HostLog
    events: EventQueue

    @property
    def run(self) -> Run:
        """The contents of ``run.json``."""
        return self.bound.run

    @property
    def cluster(self) -> Structure:
        """The cluster's structure, from the run."""
        return self.bound.structure

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.run.run_id

    @property
    def audience(self) -> str:
        """The audience that instance proofs of this run are signed for."""
        return audience_of(self.config.workspace, self.identity.cluster, self.run_id)

    def with_proof(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return a start document of workers with a new proof of this instance."""
        return {**document, "proof": prove(self.aws, self.audience)}

    def spawn(self, role: str | None = None, events: EventQueue | None = None) -> DaskChild:
        """Start a Dask process; it imports distributed at once, then waits for its start document.

        Raises `DaskFailed` when the Python can't be run.
        """
        self.config.paths.scratch.mkdir(parents=True, exist_ok=True)
        environ = child_environ(
            self.program.environ,
            home=self.config.paths.state,
            region=self.config.region,
            mounts=self.config.mount_environ,
            run_environ=self.run.environ or {},
            secrets_socket=self.config.paths.secrets_socket if self.run.secrets else None,
        )
        try:
            child = DaskChild(
                self.program.start(environ, self.config.paths.scratch),
                events=events or self.events,
                log=self.log.write,
            )
        except OSError as error:
            raise DaskFailed(
                f"The environment's Python can't be run: {error}.", given=str(self.program)
            ) from error
        child.send(
            prepare_document(
                role or self.identity.role, self.run, self.keys, self.config.paths.scratch
            )
        )
        return child


def check_imported(imported: Mapping[str, Any], run: Run) -> None:
    """Refuse a distributed that is too old, and a container image with other versions of Python,
    dask or distributed than the client that started the run.

    Raises `DistributedTooOld`, `VersionsDiffer`.
    """
    packages = imported.get("packages") or {}
    version = packages.get("distributed")
    if is_too_old(version):
        where = "where the cluster is started" if run.container is None else "in the image"
        raise DistributedTooOld(
            "The environment's distributed has security holes that a later version fixes.",
            given=f"distributed {version}",
            allowed=f"distributed {LEAST_DISTRIBUTED} or later",
            advice=(
                f"pip install 'distributed>={LEAST_DISTRIBUTED}' {where}, "
                "then stop and start the cluster."
            ),
        )
    if run.container is None:
        return
    there = {"python": imported.get("python"), **packages}
    here = {"python": run.python, **run.packages}
    differing = [name for name, wanted in here.items() if there.get(name) != wanted]
    if differing:
        raise VersionsDiffer(
            "The container image has other versions than the client.",
            given=", ".join(f"{name} {there.get(name) or 'missing'}" for name in differing),
            allowed=", ".join(f"{name} {here[name]}, as the client has" for name in differing),
            advice="use an image with these versions, or install the image's where the client is",
        )


def next_event(events: EventQueue, child: DaskChild, timeout_seconds: float) -> Event | None:
    """Return the next event of this Dask process, or None on timeout; drop those of others.

    Raises the error of a `Failed`.
    """
    event = events.next(timeout_seconds)
    if isinstance(event, Failed):
        raise event.error
    if isinstance(event, ChildMessage | ChildEnded) and event.child != child.number:
        return None
    return event


# ---- the end, in both roles ----------------------------------------------------------------------


class Crashes:
    """Counts the Dask process's crashes in one run of the host program."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._timing = host.config.timing
        self.count = 0

    def pause_before_restart(self) -> None:
        """Count a crash and wait, each time twice as long; raises `StopRequested`."""
        pause = self._timing.dask_restart_pause_seconds * 2**self.count
        self.count += 1
        self._host.log.info(
            f"restart {self.count} of {self._timing.dask_restarts} in {pause:.0f} s"
        )
        self._host.events.pause(pause)

    def too_many(self, end: Exit) -> DaskFailed:
        """Return the error for a process that isn't restarted again."""
        deaths = self.count + 1
        # The cause comes first: short lines have the beginning alone.
        return DaskFailed(
            f"{end.describe()}; the Dask {self._host.identity.role} died {deaths} "
            f"time{'s' if deaths > 1 else ''}"
        )


#: Receives messages of a closing Dask process.
Take = Callable[[ChildMessage], None]


def leave_on_stop(host: Host, child: DaskChild, stop: Stop, take: Take | None = None) -> None:
    """Close the Dask process within the time that the stop allows, and report the leaving.

    An interrupted instance ends itself as soon as its data has moved, so that its group replaces it
    then and not two minutes later.
    """
    host.reporter.enter(states.LEAVING, stop.reason)
    close_in_order(host, child, stop.seconds_left(host.config.timing.leave_seconds), take)
    if stop.interrupted:
        host.groups.leave(host.identity.instance_id, replaced=True)
    host.reporter.enter(states.LEFT, stop.reason)


def close_in_order(host: Host, child: DaskChild, seconds: float, take: Take | None = None) -> None:
    """Close the Dask process in order; kill it after `seconds`."""
    child.send({"do": "leave", "seconds": seconds})
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        event = next_event(host.events, child, left)
        if isinstance(event, ChildMessage) and take is not None:
            take(event)
        if isinstance(event, ChildEnded):
            return
    host.log.info("the Dask process did not close in time and is ended")
