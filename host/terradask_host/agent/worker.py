"""The worker's host: finds the scheduler, joins it, finds it again after a loss, leaves."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from terradask_host import states
from terradask_host.agent.child import DaskChild
from terradask_host.agent.event_queue import (
    ChildEnded,
    ChildMessage,
    Event,
    Recommended,
    Stop,
    StopRequested,
)
from terradask_host.agent.host import Crashes, Host, check_imported, leave_on_stop, next_event
from terradask_host.agent.keys import KeyFiles
from terradask_host.agent.launch_documents import worker_document
from terradask_host.documents import SchedulerAddress
from terradask_host.errors import VersionsDiffer
from terradask_host.log_streams import JOINED
from terradask_host.rules import policy
from terradask_host.rules.policy import Exit, Next, Seek
from terradask_host.trouble import Trouble


class _SchedulerSilent(Exception):
    """The wait for a scheduler has timed out or is pointless."""


class WorkerHost:
    """Runs the Dask worker of one host until it leaves."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._timing = host.config.timing
        self._crashes = Crashes(host)
        #: The scheduler that this worker last tried to join.
        self._scheduler: SchedulerAddress | None = None
        #: The same, once it is gone.
        self._lost: SchedulerAddress | None = None
        self._silent_since: float | None = None
        self._not_before = 0.0
        self._next_probe = 0.0
        self._seek_trouble = Trouble(host.log.info)
        #: Whether it has a rebalance recommendation. AWS (spot-rebalance)
        self._recommended = False

    def run(self) -> None:
        """Return when the host has left.

        Raises `DaskFailed` when the Dask process failed too often, `DistributedTooOld`, and
        `VersionsDiffer` when the scheduler has another Python, dask or distributed.
        """
        while True:
            child = self._host.spawn()
            try:
                end = self._live(child)
            except StopRequested as request:
                return leave_on_stop(self._host, child, request.stop)
            except _SchedulerSilent as silent:
                return self._leave(str(silent))
            finally:
                child.kill()
            self._host.log.info(f"the Dask process ended: {end.describe()}")
            if self._follow(end) is Next.RETIRED:
                return self._leave_retired(end)

    def _live(self, child: DaskChild) -> Exit:
        """Run one Dask process from its import to its end."""
        self._host.reporter.enter(states.WAITING)
        imported: dict[str, Any] | None = None
        scheduler: SchedulerAddress | None = None
        spawned, started = time.monotonic(), 0.0
        while True:
            if scheduler is None:
                scheduler = self._find_scheduler()
                self._scheduler = scheduler or self._scheduler
            if scheduler is not None and imported is not None and not started:
                self._check_versions(imported, scheduler)
                document = worker_document(
                    self._host.config,
                    self._host.identity,
                    self._host.cluster,
                    scheduler.private_address,
                    self._host.keys,
                )
                self._host.log.info(f"joining {scheduler.private_address}, boot {scheduler.boot}")
                child.send(self._host.with_proof(document))
                started = time.monotonic()
                self._host.reporter.enter(states.STARTING)
            event = next_event(self._host.events, child, self._pause(scheduler is None, started))
            if isinstance(event, Stop):
                raise StopRequested(event)
            if isinstance(event, ChildEnded):
                return event.end
            self._follow_recommendation(event, child)
            event_name = event.event if isinstance(event, ChildMessage) else None
            if isinstance(event, ChildMessage) and event_name == "imported":
                imported = event.facts
                check_imported(imported, self._host.run)
            elif event_name == "running":
                self._lost, self._silent_since = None, None
                if self._host.reporter.state != states.RUNNING and scheduler is not None:
                    self._host.log.info(f"{JOINED} {scheduler.private_address}")
                self._host.reporter.enter(states.RUNNING)
            elif self._host.reporter.state == states.STARTING and self._too_slow(started):
                return Exit(
                    1, f"the worker did not run within {self._timing.dask_start_seconds:.0f} s"
                )
            if imported is None and self._too_slow(spawned):
                seconds = f"{self._timing.dask_start_seconds:.0f} s"
                return Exit(1, f"the Dask process did not import distributed within {seconds}")

    def _follow_recommendation(self, event: Event | None, child: DaskChild) -> None:
        """Drain the workers when AWS recommends to replace this instance; leave when drained."""
        is_new = isinstance(event, Recommended)
        self._recommended = self._recommended or is_new
        event_name = event.event if isinstance(event, ChildMessage) else None
        if event_name == "drained":
            reason = "AWS recommends to replace this instance, and its workers are empty"
            raise StopRequested(Stop(reason, until=time.monotonic() + self._timing.leave_seconds))
        is_running = is_new and self._host.reporter.state == states.RUNNING
        if self._recommended and (event_name == "running" or is_running):
            child.send({"do": "drain"})

    def _pause(self, seeking: bool, started: float) -> float:
        if seeking:
            since = self._silent_since if self._silent_since is not None else time.monotonic()
            return policy.seek_pause_seconds(time.monotonic() - since)
        return 5.0 if started else self._timing.dask_start_seconds

    def _too_slow(self, started: float) -> bool:
        return started > 0 and time.monotonic() - started > self._timing.dask_start_seconds

    def _find_scheduler(self) -> SchedulerAddress | None:
        """Read ``scheduler.json`` once and return it when it is one to join."""
        now = time.monotonic()
        if self._silent_since is None:
            self._silent_since = now
        if now < self._not_before:
            return None
        document = self._read_scheduler()
        decision = policy.seek(
            document,
            run_id=self._host.run_id,
            lost_boot=self._lost.boot if self._lost else None,
            lost_boot_answers=self._lost is not None and self._probe(self._lost, now),
            silent_seconds=now - self._silent_since,
            timing=self._timing,
        )
        if decision is Seek.LEAVE:
            if (ended := policy.end_of(document, self._host.run_id)) is not None:
                raise _SchedulerSilent(f"the cluster has ended: {ended.reason}")
            raise _SchedulerSilent(f"no scheduler for {now - self._silent_since:.0f} s")
        return document if decision is Seek.JOIN else None

    def _read_scheduler(self) -> SchedulerAddress | None:
        try:
            document = self._host.objects.read_document("scheduler.json")
            address = None if document is None else SchedulerAddress.read(document)
        except Exception as error:  # noqa: BLE001 - any error counts as "no scheduler"
            self._seek_trouble.note(
                f"scheduler.json can't be read: {type(error).__name__}: {error}"
            )
            return None
        return address

    def _probe(self, scheduler: SchedulerAddress, now: float) -> bool:
        if now < self._next_probe:
            return False
        self._next_probe = now + self._timing.scheduler_probe_seconds
        return self._answers(scheduler)

    def _answers(self, scheduler: SchedulerAddress) -> bool:
        return scheduler_answers(
            scheduler.private_address,
            self._host.keys,
            timeout_seconds=self._timing.probe_timeout_seconds,
        )

    def _check_versions(self, own: Mapping[str, Any], scheduler: SchedulerAddress) -> None:
        differences = policy.version_differences(own, vars(scheduler))
        if differences:
            listed = "; ".join(
                f"{name}: worker {mine or 'none'}, scheduler {theirs or 'none'}"
                for name, (mine, theirs) in differences.items()
            )
            raise VersionsDiffer(
                "Worker and scheduler have different versions.",
                given=listed,
                allowed="the same Python minor version, dask and distributed",
                advice=(
                    "Stop and start the cluster: all hosts then take their versions from the "
                    "same lock."
                ),
            )

    def _follow(self, end: Exit) -> Next:
        """Decide on the next step after the process's end, and prepare it."""
        scheduler = self._scheduler
        alive = scheduler is None or self._answers(scheduler)
        follows = policy.after_worker_exit(
            end, crashes=self._crashes.count, scheduler_answers=alive, timing=self._timing
        )
        if follows in (Next.SEEK, Next.SEEK_LATER):
            self._lost = scheduler
            self._next_probe = 0.0
            if follows is Next.SEEK_LATER:
                self._not_before = time.monotonic() + self._timing.retired_grace_seconds
            self._host.log.info("the scheduler is gone; looking for it")
        elif follows is Next.RESTART:
            self._crashes.pause_before_restart()
        elif follows is Next.FAIL:
            raise self._crashes.too_many(end)
        return follows

    def _leave_retired(self, end: Exit) -> None:
        """Wait for the client that retired this worker to end the instance; then leave."""
        reason = f"retired: {end.reason or 'the worker closed in order'}"
        self._host.reporter.enter(states.LEAVING, reason)
        try:
            self._host.events.pause(self._timing.retired_grace_seconds)
        except StopRequested as request:
            # Only after an interruption must this host lower its group's number.
            if not request.stop.interrupted:
                self._host.reporter.enter(states.LEFT, reason)
                return
        self._leave(reason)

    def _leave(self, reason: str) -> None:
        """Leave with decrement, so that no other host replaces this one."""
        self._host.log.info(f"leaving: {reason}")
        self._host.reporter.enter(states.LEAVING, reason)
        groups, instance_id = self._host.groups, self._host.identity.instance_id
        try:
            groups.leave(instance_id, pause=self._host.events.pause)
        except StopRequested as request:
            # AWS is ending this instance, unless it interrupts it.
            if request.stop.interrupted:
                groups.leave(instance_id)
        self._host.reporter.enter(states.LEFT, reason)


# ---- probe of the cluster's scheduler at an address ----------------------------------------------


def scheduler_answers(address: str, keys: KeyFiles, *, timeout_seconds: float) -> bool:
    """Return whether a server with a certificate of the cluster's authority answers at
    ``tls://host:port``.

    A bare TCP connection would also reach another cluster's scheduler at a reused address.
    """
    parts = urlsplit(address)
    if not parts.hostname or not parts.port:
        return False
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # As in Dask: a dedicated authority and addresses instead of host names.
    context.check_hostname = False
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_verify_locations(keys.ca)
        context.load_cert_chain(keys.cert, keys.key)
        with (
            socket.create_connection((parts.hostname, parts.port), timeout_seconds) as plain,
            context.wrap_socket(plain),
        ):
            return True
    except OSError:
        return False
