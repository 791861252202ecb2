"""The scheduler's host: run it, publish its address, postpone the watchdog schedule, end the
cluster when its lifetime is over.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from typing import Any, TypeVar

from terradask_host import states
from terradask_host.agent.child import DaskChild
from terradask_host.agent.endings import Crashes, close_in_order, leave_on_stop
from terradask_host.agent.event_queue import ChildSaid, StopRequested
from terradask_host.agent.extra_worker import ExtraWorker
from terradask_host.agent.host import Host, check_imported, next_event
from terradask_host.agent.instance_proofs import ProofChecks
from terradask_host.agent.join_watchdog import JoinWatchdog
from terradask_host.agent.launch_documents import scheduler_document
from terradask_host.agent.objects import wait_for
from terradask_host.agent.watchdog_schedule import WatchdogSchedule
from terradask_host.documents import (
    UNREADABLE,
    Ended,
    LifetimePolicy,
    SchedulerAddress,
    closing_document,
    now_text,
)
from terradask_host.metadata import Identity
from terradask_host.rules import policy
from terradask_host.rules.instance_proof import Verdict
from terradask_host.rules.lifetime import Limits, lifetime_end_reason
from terradask_host.rules.policy import Exit, Next
from terradask_host.structure import SchedulerEntry

T = TypeVar("T")

#: Where the host's report lists refused workers, which have no group.
WORKERS = "workers"

#: Hosts that join together wait for each other no longer than AWS takes for one of so many.
_PROOFS_AT_A_TIME = 8

#: Pauses after each try to bring the groups to zero; the watchdog schedule ends what is left then.
_ZERO_PAUSES_SECONDS = (1.0, 2.0, 4.0, 8.0, 0.0)


def build_address(
    identity: Identity,
    entry: SchedulerEntry,
    *,
    run_id: str,
    boot: int,
    versions: Mapping[str, Any],
) -> SchedulerAddress:
    """Return what ``scheduler.json`` will say; `versions` has ``python`` and ``packages`` of the
    scheduler's process.
    """
    public = identity.public_address
    return SchedulerAddress(
        run_id=run_id,
        instance_id=identity.instance_id,
        boot=boot,
        private_address=f"tls://{identity.private_address}:{entry.port}",
        public_address=f"tls://{public}:{entry.port}" if public else None,
        dashboard_port=entry.dashboard_port,
        python=versions["python"],
        packages=versions["packages"],
        started_at=now_text(),
    )


class _Over(Exception):
    """The cluster's life is over; the text says why."""


class SchedulerHost:
    """Runs the Dask scheduler of one host until the cluster is over or the host is
    asked to stop.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._timing = host.config.timing
        self._crashes = Crashes(host)
        self._limits = Limits.of_policy(host.run.life, host.run.started_at)
        self._watchdog = WatchdogSchedule(host, self._limits.ends_at)
        self._join_watchdog = JoinWatchdog(host)
        #: What a client said since, which holds for a Dask process that is started again too.
        self._said_life: dict[str, Any] = {}
        self._previous: SchedulerAddress | None = None
        #: ETag of the ``scheduler.json`` that was written from here.
        self._announced: str | None = None
        self._extra_worker: ExtraWorker | None = None
        self._proofs = ProofChecks(host.aws, host.audience, host.run.host_roles)
        self._checking = ThreadPoolExecutor(_PROOFS_AT_A_TIME, "instance-proofs")

    def run(self) -> None:
        """Return when the host has left.

        Raises
        ------
        DaskFailed
            When the Dask process died too often.
        DistributedTooOld
            When the environment's distributed has known holes.
        """
        while True:
            child = self._host.spawn()
            try:
                end = self._live(child)
            except StopRequested as request:
                return leave_on_stop(self._host, child, request.stop)
            except _Over as over:
                return self._end_cluster(str(over), child)
            finally:
                child.kill()
                self._end_extra_worker()
            self._host.log.info(f"the Dask process ended: {end.describe()}")
            follows = policy.after_scheduler_exit(
                end, crashes=self._crashes.count, timing=self._timing
            )
            if follows is Next.OVER:
                return self._end_cluster(
                    f"the scheduler ended itself: {end.reason or 'closed in order'}"
                )
            if follows is Next.FAIL:
                raise self._crashes.too_many(end)
            self._crashes.pause_before_restart()

    def _live(self, child: DaskChild) -> Exit:
        """Run one Dask process to its end."""
        host = self._host
        host.reporter.enter(states.STARTING)
        document = scheduler_document(
            host.identity,
            host.cluster,
            host.keys,
            self._life(),
            self._timing,
            loopback=host.config.loopback,
        )
        started = time.monotonic()
        self._watchdog.note_alive()
        self._previous = self._previous or self._read_previous()
        while True:
            self._check_age()
            # One that never comes up keeps nothing alive.
            pause = self._watchdog.tick() if host.reporter.state == states.RUNNING else 5.0
            received = next_event(host.events, child, min(pause, 5.0))
            if received.stop:
                raise StopRequested(received.stop)
            if received.ended:
                return received.ended
            if received.said:
                self._watchdog.note_alive()
                if received.said.event == "imported":
                    check_imported(received.said.facts, self._host.run)
                    child.send(document)
                self._take(received.said, child)
            late = time.monotonic() - started > self._timing.dask_start_seconds
            if host.reporter.state == states.STARTING and late:
                return Exit(
                    1,
                    f"the scheduler did not listen within {self._timing.dask_start_seconds:.0f} s",
                )

    def _life(self) -> dict[str, Any]:
        looks = {
            "look_seconds": self._timing.life_look_seconds,
            "first_client_seconds": self._timing.first_client_seconds,
        }
        return {**asdict(self._host.run.life or LifetimePolicy()), **self._said_life, **looks}

    def _take(self, said: ChildSaid, child: DaskChild) -> None:
        if said.event == "running":
            self._announce(said.facts)
            # So that workers launched with the scheduler don't wait for an answer.
            self._send_members(child, self._join_watchdog.instance_ids())
        elif said.event == "keepalive":
            self._said_life["no_client_timeout_seconds"] = said.facts["seconds"]
        elif said.event == "workers":
            self._send_members(child, self._join_watchdog.check(said.facts["names"]))
        elif said.event == "who":
            self._send_members(child, self._join_watchdog.instance_ids())
        elif said.event == "proof":
            self._checking.submit(self._check_proof, child, **said.facts)
        elif said.event == "refused":
            text = (
                f"a worker named {said.facts['name']}, at {said.facts['address']}: "
                f"{said.facts['why']}"
            )
            self._host.reporter.note(WORKERS, "refused", text)
        elif said.event == "over":
            raise _Over(said.facts["reason"])

    def _check_proof(
        self, child: DaskChild, number: int, role: str, instance_id: str, proof: object
    ) -> None:
        try:
            verdict, why = self._proofs.check(role, instance_id, proof)
        except Exception as error:  # noqa: BLE001 - the worker waits for an answer
            self._host.log.info(f"the proof of {instance_id} can't be checked: {error!r}")
            verdict, why = Verdict.UNKNOWN, repr(error)
        child.send({"do": "proof", "number": number, "verdict": verdict.value, "why": why})

    @staticmethod
    def _send_members(child: DaskChild, instance_ids: frozenset[str] | None) -> None:
        child.send(
            {
                "do": "members",
                "instance_ids": None if instance_ids is None else sorted(instance_ids),
            }
        )

    def _check_age(self) -> None:
        reason = lifetime_end_reason(self._limits, datetime.datetime.now(datetime.UTC))
        if reason is not None:
            raise _Over(reason)
        if (
            self._previous is not None
            and self._previous.ended is not None
            and self._previous.run_id == self._host.run_id
        ):
            # An earlier host of this run came to that, and did not get all groups to zero.
            raise _Over(self._previous.ended.reason)

    def _read_previous(self) -> SchedulerAddress | None:
        objects, name = self._host.objects, "scheduler.json"

        def read(_: float) -> dict[str, Any] | None:
            document = objects.read_document(name)
            # S3 may miss an object of a young bucket; clients and workers know boots by number.
            return document if document or objects.etag(name) else {}

        document = self._patiently(read, f"answer about {name}")
        try:
            return SchedulerAddress.read(document) if document else None
        except UNREADABLE as error:
            # It is written anew as soon as the scheduler listens.
            self._host.log.info(f"scheduler.json can't be read: {type(error).__name__}: {error}")
            return None

    def _announce(self, versions: Mapping[str, Any]) -> None:
        """Say where the scheduler is; only then does the host count as running."""
        boot = policy.next_boot(self._previous, self._host.run_id)
        address = build_address(
            self._host.identity,
            self._host.cluster.scheduler,
            run_id=self._host.run_id,
            boot=boot,
            versions=versions,
        )
        self._announced = self._patiently(
            lambda _: self._host.objects.write_document("scheduler.json", address.to_document()),
            "chance to write scheduler.json",
        )
        self._previous = address
        self._host.log.info(f"listening at {address.private_address}, boot {boot}")
        self._host.reporter.enter(states.RUNNING)
        if self._host.cluster.scheduler.extra_worker:
            self._extra_worker = ExtraWorker(self._host, address.private_address)

    def _end_extra_worker(self) -> None:
        if self._extra_worker is not None:
            self._extra_worker.close()
            self._extra_worker = None

    def _patiently(self, ask: Callable[[float], T], what: str) -> T:
        return wait_for(
            ask,
            what=what,
            advice="Check the bucket and the scheduler role's rights below clusters/<name>/.",
            deadline_seconds=self._timing.run_deadline_seconds,
            events=self._host.events,
        )

    def _end_cluster(self, reason: str, child: DaskChild | None = None) -> None:
        """End the cluster: say why, close the scheduler where it still runs, bring all groups to
        zero.
        """
        self._host.log.info(f"the cluster is over: {reason}; all groups go to 0")
        self._host.reporter.enter(states.LEAVING, reason)
        self._write_ended(reason)
        self._mark_closing(reason)
        if child is not None:
            close_in_order(self._host, child, self._timing.scheduler_close_seconds)
        for pause in _ZERO_PAUSES_SECONDS:
            if self._host.groups.zero():
                break
            time.sleep(pause)
        self._host.reporter.enter(states.LEFT, reason)

    def _write_ended(self, reason: str) -> None:
        """Say in ``scheduler.json`` that the cluster has ended: to clients, to workers, and to a
        host in this one's place.

        Stopping the cluster deletes it; it is not brought back.
        """
        try:
            if self._announced is not None and self._previous is not None:
                document = replace(self._previous, ended=Ended(now_text(), reason)).to_document()
                self._host.objects.write_document("scheduler.json", document, over=self._announced)
        except Exception as error:  # noqa: BLE001 - the groups still need their zero
            self._host.log.info(
                "the end of the cluster can't be written to scheduler.json: "
                f"{type(error).__name__}: "
                f"{error}"
            )

    def _mark_closing(self, reason: str) -> None:
        """Note that the deployment shall go too, where it was made for a client that was to take it
        along; the next command does that.

        Where the cluster was stopped or destroyed its run is deleted: then there is nothing to note
        any more.
        """
        if self._host.run.life is None or not self._host.run.life.destroyed_after:
            return
        objects = self._host.objects
        try:
            if self._host.bound.is_current(objects):
                objects.write_document("closing.json", closing_document(now_text(), reason))
        except Exception as error:  # noqa: BLE001 - the groups still need their zero
            self._host.log.info(f"closing.json can't be written: {type(error).__name__}: {error}")
