"""The scheduler's host: runs the scheduler, publishes its address, postpones the watchdog schedule,
and ends the cluster at the end of its lifetime.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from typing import Any

from terradask_host import states
from terradask_host.agent.announcement import Announcement
from terradask_host.agent.child import DaskChild
from terradask_host.agent.event_queue import ChildEnded, ChildMessage, Stop, StopRequested
from terradask_host.agent.host import (
    Crashes,
    Host,
    check_imported,
    close_in_order,
    leave_on_stop,
    next_event,
)
from terradask_host.agent.instance_proofs import ProofChecks
from terradask_host.agent.join_watchdog import JoinWatchdog
from terradask_host.agent.kept_reports import KeptJobs, KeptReports, KeptUsage, MetricsLog
from terradask_host.agent.launch_documents import scheduler_document
from terradask_host.agent.notices import ENDED, Notice, publish_given_up
from terradask_host.agent.scaling import Scaler, create_scaler
from terradask_host.agent.side_process import SideProcess, start_side_processes
from terradask_host.documents import LifetimePolicy, closing_document, now_text
from terradask_host.log_streams import LISTENING
from terradask_host.rules import policy
from terradask_host.rules.instance_proof import Verdict
from terradask_host.rules.lifetime import duration, ends_at, lifetime_end_reason
from terradask_host.rules.policy import Exit, Next
from terradask_host.scaling_policy import policies_document

#: The group name in the host's report for refused workers, which have none.
WORKERS = "workers"

#: Number of joining hosts for which the wait for each other stays below AWS's time for one.
_PROOFS_AT_A_TIME = 8

#: Pauses between tries to set the groups to zero; the watchdog schedule ends those left.
_ZERO_PAUSES_SECONDS = (1.0, 2.0, 4.0, 8.0, 0.0)


class _ClusterOver(Exception):
    """The cluster's lifetime is over; the text is the reason."""


class SchedulerHost:
    """Runs the Dask scheduler of one host until the cluster is over or the host must stop."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._timing = host.config.timing
        self._crashes = Crashes(host)
        self._ends_at = ends_at(host.run.life, host.run.started_at)
        self._watchdog = WatchdogSchedule(host, self._ends_at)
        self._join_watchdog = JoinWatchdog(host, on_given_up=self._give_up)
        #: A client's later settings, which also hold for a restarted Dask process.
        self._changed_lifetime: dict[str, Any] = {}
        self._announcement = Announcement(host)
        self._child: DaskChild | None = None
        self._scaler: Scaler | None = None
        #: Processes beside the scheduler's, which end with it.
        self._beside: list[SideProcess] = []
        self._proofs = ProofChecks(host.aws, host.audience, host.run.host_roles)
        self._checking = ThreadPoolExecutor(_PROOFS_AT_A_TIME, "instance-proofs")
        self._reports = KeptReports(host.objects, host.run_id, log=host.log.info)
        self._metrics = MetricsLog(host)
        self._usage = KeptUsage(
            host.objects,
            host.run_id,
            group_of=self._join_watchdog.worker_group_of,
            interval_seconds=self._timing.usage_kept_seconds,
            log=host.log.info,
        )
        self._jobs = KeptJobs(host.objects, log=host.log.info)

    def run(self) -> None:
        """Return when the host has left.

        Raises `DaskFailed` when the Dask process failed too often, `DistributedTooOld`.
        """
        while True:
            child = self._child = self._host.spawn()
            try:
                end = self._live(child)
            except StopRequested as request:
                why = self._watchdog.why_fired(datetime.datetime.now(datetime.UTC))
                if why is not None:
                    return self._end_cluster(why, child)
                return self._close(child, request.stop)
            except _ClusterOver as over:
                return self._end_cluster(str(over), child)
            finally:
                child.kill()
                while self._beside:
                    self._beside.pop().close()
                if self._scaler is not None:
                    self._scaler.forget_retirements()
            self._host.log.info(f"the Dask process ended: {end.describe()}")
            follows = policy.after_scheduler_exit(
                end, crashes=self._crashes.count, timing=self._timing
            )
            if follows is Next.OVER:
                return self._end_cluster(
                    f"the scheduler ended itself: {end.reason or 'closed in order'}"
                )
            if follows is Next.FAIL:
                error = self._crashes.too_many(end)
                publish_given_up(self._host, str(error))
                raise error
            self._crashes.pause_before_restart()

    def _live(self, child: DaskChild) -> Exit:
        """Run one Dask process to its end."""
        host = self._host
        host.reporter.enter(states.STARTING)
        self._announcement.read()
        document = scheduler_document(
            host.identity,
            host.cluster,
            host.keys,
            self._life(),
            self._timing,
            paths=host.config.paths,
            loopback=host.config.loopback,
            scaling=policies_document(
                self._announcement.scaling if self._scaler is None else self._scaler.policies
            ),
        )
        started = time.monotonic()
        self._watchdog.note_alive()
        while True:
            self._check_age()
            # A process that never starts keeps nothing alive.
            pause = self._watchdog.tick() if host.reporter.state == states.RUNNING else 5.0
            event = next_event(host.events, child, min(pause, 5.0))
            if isinstance(event, Stop):
                raise StopRequested(event)
            if isinstance(event, ChildEnded):
                return event.end
            if isinstance(event, ChildMessage):
                self._watchdog.note_alive()
                if event.event == "imported":
                    check_imported(event.facts, self._host.run)
                    child.send(document)
                self._take(event, child)
            late = time.monotonic() - started > self._timing.dask_start_seconds
            if host.reporter.state == states.STARTING and late:
                return Exit(
                    1,
                    f"the scheduler did not listen within {self._timing.dask_start_seconds:.0f} s",
                )

    def _life(self) -> dict[str, Any]:
        return {
            **asdict(self._host.run.life or LifetimePolicy()),
            **self._changed_lifetime,
            "poll_seconds": self._timing.life_poll_seconds,
            "first_client_seconds": self._timing.first_client_seconds,
        }

    def _take(self, message: ChildMessage, child: DaskChild) -> None:
        if message.event == "running":
            self._announce(message.facts)
            self._beside = start_side_processes(self._host, child)
            # So that workers launched with the scheduler don't wait for an answer.
            self._send_members(child, self._join_watchdog.instance_ids())
        elif message.event == "keepalive":
            self._changed_lifetime["no_client_timeout_seconds"] = message.facts["seconds"]
        elif message.event == "workers":
            self._send_members(
                child, self._join_watchdog.check(message.facts["names"], message.facts["retired"])
            )
        elif message.event == "who":
            self._send_members(child, self._join_watchdog.instance_ids())
        elif message.event == "proof":
            self._checking.submit(self._check_proof, child, **message.facts)
        elif message.event == "refused":
            text = "a worker named {name}, at {address}: {why}".format_map(message.facts)
            self._host.reporter.note(WORKERS, "refused", text)
        elif message.event in ("job", "report", "usage"):
            self._keep(message, child)
        elif message.event == "gauges":
            self._metrics.take(message.facts)
        elif message.event in ("load", "retired", "observed") and self._scaler is not None:
            self._scaler.take(message.facts)
        elif message.event == "adapt" and self._scaler is not None:
            self._scaler.adapt(**message.facts)
        elif message.event == "scale" and self._scaler is not None:
            self._scaler.scale(**message.facts)
        elif message.event in ("ending", "over"):
            self._take_end(message)

    def _take_end(self, message: ChildMessage) -> None:
        if message.event == "over":
            raise _ClusterOver(message.facts["reason"])
        self._announcement.note_ending(message.facts["at"], message.facts["reason"])

    def _keep(self, message: ChildMessage, child: DaskChild) -> None:
        if message.event == "report":
            self._reports.keep(child, message.facts)
            self._usage.write()
        elif message.event == "usage":
            self._usage.take(message.facts)
        elif message.event == "job":
            self._jobs.keep(message.facts)

    def _close(self, child: DaskChild, stop: Stop | None = None) -> None:
        """Close the scheduler, and allow some seconds to store its last report."""
        self._stop_scaling()
        take = partial(self._keep, child=child)
        if stop is not None:
            leave_on_stop(self._host, child, stop, take)
        else:
            close_in_order(self._host, child, self._timing.scheduler_close_seconds, take)
        self._wait_for_kept()

    def _wait_for_kept(self) -> None:
        self._jobs.wait(self._timing.performance_report_seconds)
        self._reports.wait(self._timing.performance_report_seconds)
        self._usage.wait(self._timing.usage_wait_seconds)

    def _check_proof(
        self, child: DaskChild, number: int, role: str, instance_id: str, proof: object
    ) -> None:
        try:
            verdict, why = self._proofs.check(role, instance_id, proof)
        except Exception as error:  # noqa: BLE001 - the worker waits for an answer
            self._host.log.info(f"the proof of {instance_id} can't be checked: {error!r}")
            verdict, why = Verdict.UNKNOWN, repr(error)
        child.send({"do": "answer", "number": number, "verdict": verdict.value, "why": why})

    def _give_up(self, group: str) -> None:
        if self._scaler is not None:
            self._scaler.give_up(group)

    @staticmethod
    def _send_members(child: DaskChild, instance_ids: frozenset[str] | None) -> None:
        known = None if instance_ids is None else sorted(instance_ids)
        child.send({"do": "members", "instance_ids": known})

    def _check_age(self) -> None:
        reason = lifetime_end_reason(self._ends_at, datetime.datetime.now(datetime.UTC))
        if reason is not None:
            raise _ClusterOver(reason)
        if (ended := self._announcement.ended) is not None:
            # That host failed to set all groups to zero.
            raise _ClusterOver(ended.reason)

    def _announce(self, versions: Mapping[str, Any]) -> None:
        """Publish the scheduler's address; only then does the host count as running."""
        address = self._announcement.announce(versions)
        self._reports.boot = address.boot
        self._usage.start(address.boot)
        self._host.log.info(f"{LISTENING} {address.private_address}, boot {address.boot}")
        self._host.reporter.enter(states.RUNNING)
        if self._scaler is None:
            self._scaler = create_scaler(self._host, self._announcement, self._send)

    def _send(self, word: Mapping[str, Any]) -> None:
        """Send a message to the scheduler's current process."""
        if self._child is not None:
            self._child.send(word)

    def _end_cluster(self, reason: str, child: DaskChild | None = None) -> None:
        """End the cluster: report the reason, close a running scheduler, set all groups to zero."""
        self._host.log.info(f"the cluster is over: {reason}; all groups go to 0")
        self._host.reporter.enter(states.LEAVING, reason)
        # A group at zero must not grow again.
        self._stop_scaling()
        told_before = self._announcement.ended is not None
        notice = None if told_before else Notice.of_host(self._host, ENDED, reason)
        self._announcement.write_ended(reason)
        self._mark_closing(reason)
        if child is not None:
            self._close(child)
        else:
            # It may have ended itself a moment ago.
            self._wait_for_kept()
        for pause in _ZERO_PAUSES_SECONDS:
            if self._host.groups.zero():
                break
            time.sleep(pause)
        else:
            # A replacement of this host tries again; else the watchdog schedule ends the groups.
            text = (
                "AWS refuses to set all groups of an ended cluster to zero; the watchdog "
                "schedule does so, half an hour after the last host moved it"
            )
            self._host.reporter.note(self._host.identity.group, "kept", text)
        if notice is not None:
            notice.wait(self._timing.notice_seconds)
        self._host.reporter.enter(states.LEFT, reason)

    def _stop_scaling(self) -> None:
        if self._scaler is not None:
            self._scaler.close(self._timing.scheduler_close_seconds)

    def _mark_closing(self, reason: str) -> None:
        """Mark the deployment for deletion by the next command, if it was to go with its client.

        After a stop or destroy the run is deleted, and no mark is needed.
        """
        if self._host.run.life is None or not self._host.run.life.destroyed_after:
            return
        objects = self._host.objects
        try:
            if self._host.bound.is_current(objects):
                objects.write_document("closing.json", closing_document(now_text(), reason))
        except Exception as error:  # noqa: BLE001 - the groups must still go to zero
            self._host.log.info(f"closing.json can't be written: {type(error).__name__}: {error}")


# ---- the watchdog schedule -----------------------------------------------------------------------


class WatchdogSchedule:
    """Postpones the groups' scheduled action "desired 0" while the scheduler's event loop is alive.

    It is never later than the end of the cluster's lifetime, so that AWS enforces that too.
    """

    def __init__(self, host: Host, ends_at: datetime.datetime | None = None) -> None:
        self._host = host
        self._timing = host.config.timing
        self._ends_at = ends_at
        self._due = time.monotonic()
        self._alive_at = self._due
        #: When AWS sets the groups to zero, as this host last set it.
        self._fires_at: datetime.datetime | None = None

    def note_alive(self) -> None:
        """Note a sign of life."""
        self._alive_at = time.monotonic()

    def tick(self) -> float:
        """Postpone the schedule if that is due; return the seconds until it is due again.

        It isn't postponed for a scheduler that has hung for as long as the schedule is ahead.
        """
        now = time.monotonic()
        if now < self._due:
            return self._due - now
        if now - self._alive_at > self._timing.watchdog_ahead_seconds:
            self._host.log.info(
                "the scheduler gives no sign of life: the watchdog schedule is not postponed"
            )
            moved = True
        else:
            at = fires_at(
                datetime.datetime.now(datetime.UTC),
                self._timing.watchdog_ahead_seconds,
                self._ends_at,
            )
            moved = self._host.groups.move_watchdog(at)
            self._fires_at = at if moved else self._fires_at
        pause = self._timing.watchdog_move_seconds
        self._due = now + (pause if moved else min(pause, 60.0))
        return self._due - now

    def why_fired(self, now: datetime.datetime) -> str | None:
        """Return why AWS has set the groups to zero, for a host that it shuts down; else None."""
        if self._fires_at is None or now < self._fires_at:
            return None
        silent = time.monotonic() - self._alive_at
        rounded = duration(60 * round(silent / 60) if silent >= 60 else round(silent))
        why = (
            f"the scheduler gave no sign of life for {rounded}"
            if silent > self._timing.watchdog_ahead_seconds
            else "its host could not postpone it"
        )
        return f"AWS's watchdog schedule has set all groups to 0: {why}"


def fires_at(
    now: datetime.datetime, ahead_seconds: float, ends_at: datetime.datetime | None
) -> datetime.datetime:
    """Return the time to move the schedule to."""
    ahead = now + datetime.timedelta(seconds=ahead_seconds)
    return ahead if ends_at is None else min(ahead, ends_at)
