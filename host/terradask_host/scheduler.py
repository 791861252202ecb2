"""The scheduler's host: run it, say where it is, hold the dead man's switch, end the cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from terradask_host import policy, states
from terradask_host.child import DaskChild
from terradask_host.config import FORMAT
from terradask_host.endings import Crashes, leave_on_stop
from terradask_host.extra_worker import ExtraWorker
from terradask_host.host import Host, hear
from terradask_host.launch_documents import scheduler_document
from terradask_host.mailbox import StopRequested
from terradask_host.metadata import Identity
from terradask_host.objects import wait_for
from terradask_host.policy import Exit, Next
from terradask_host.report import now_text

T = TypeVar("T")


def build_scheduler_document(
    identity: Identity,
    cluster: Mapping[str, Any],
    *,
    run_id: str,
    boot: int,
    versions: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the document ``scheduler.json``.

    Parameters
    ----------
    identity
        Whose addresses.
    cluster
        The document ``cluster.json``, for the ports.
    run_id
        The run.
    boot
        Counts up each time a scheduler process comes up in the run.
    versions
        ``python`` and ``packages`` of the scheduler's process.
    """
    port = cluster["scheduler"]["port"]
    public = identity.public_address
    return {
        "format": FORMAT,
        "run_id": run_id,
        "instance_id": identity.instance_id,
        "boot": boot,
        "started_at": now_text(),
        "private_address": f"tls://{identity.private_address}:{port}",
        "public_address": f"tls://{public}:{port}" if public else None,
        "dashboard_port": cluster["scheduler"]["dashboard_port"],
        "packages": versions.get("packages", {}),
        "python": versions.get("python"),
    }


class DeadManSwitch:
    """Moves the groups' scheduled action "desired 0" on, as long as the scheduler's event loop gives signs of life.

    Parameters
    ----------
    host
        Whose groups.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._timing = host.config.timing
        self._due = time.monotonic()
        self._heard = self._due

    def heard(self) -> None:
        """Note a sign of life."""
        self._heard = time.monotonic()

    def tick(self) -> float:
        """Move the switch when that is due; return the seconds until it is due again.

        A scheduler that has hung for as long as the switch is ahead keeps the cluster alive no longer.
        """
        now = time.monotonic()
        if now < self._due:
            return self._due - now
        if now - self._heard > self._timing.dead_man_ahead_seconds:
            self._host.book.say("the scheduler gives no sign of life: the dead man's switch stays where it is")
            moved = True
        else:
            moved = self._host.groups.move_dead_man(self._timing.dead_man_ahead_seconds)
        pause = self._timing.dead_man_move_seconds
        self._due = now + (pause if moved else min(pause, 60.0))
        return self._due - now


class SchedulerHost:
    """Runs the Dask scheduler of one host until the cluster is over or the host is asked to stop.

    Parameters
    ----------
    host
        Who it is and what it runs.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._timing = host.config.timing
        self._crashes = Crashes(host)
        self._switch = DeadManSwitch(host)
        self._previous: dict[str, Any] | None = None
        self._extra_worker: ExtraWorker | None = None

    def run(self) -> None:
        """Return when the host has left.

        Raises
        ------
        DaskFailed
            When the Dask process died too often.
        """
        while True:
            child = self._host.spawn()
            try:
                end = self._live(child)
            except StopRequested as request:
                return leave_on_stop(self._host, child, request.stop)
            finally:
                child.kill()
                self._end_extra_worker()
            self._host.book.say(f"the Dask process ended: {end.describe()}")
            follows = policy.after_scheduler_exit(end, crashes=self._crashes.count, timing=self._timing)
            if follows is Next.OVER:
                return self._end_cluster(end)
            if follows is Next.FAIL:
                raise self._crashes.too_many(end)
            self._crashes.pause_before_restart()

    def _live(self, child: DaskChild) -> Exit:
        """Run one Dask process to its end."""
        host = self._host
        host.reporter.enter(states.STARTING)
        document = scheduler_document(host.identity, host.cluster, host.keys)
        child.send(document)
        started = time.monotonic()
        self._switch.heard()
        self._previous = self._previous or self._read_previous()
        while True:
            heard = hear(host.mailbox, child, min(self._switch.tick(), 5.0))
            if heard.stop:
                raise StopRequested(heard.stop)
            if heard.ended:
                return heard.ended
            if heard.said:
                self._switch.heard()
                if heard.said.event == "running":
                    self._announce(heard.said.facts)
            late = time.monotonic() - started > self._timing.dask_start_seconds
            if host.reporter.state == states.STARTING and late:
                return Exit(1, f"the scheduler did not listen within {self._timing.dask_start_seconds:.0f} s")

    def _read_previous(self) -> dict[str, Any]:
        def ask(_: float) -> dict[str, Any]:
            return self._host.objects.read_document("scheduler.json") or {}

        return self._patiently(ask, "answer about scheduler.json")

    def _announce(self, versions: Mapping[str, Any]) -> None:
        """Say where the scheduler is; only then does the host count as running."""
        boot = policy.next_boot(self._previous, self._host.run_id)
        document = build_scheduler_document(
            self._host.identity,
            self._host.cluster,
            run_id=self._host.run_id,
            boot=boot,
            versions=versions,
        )

        def ask(_: float) -> bool:
            self._host.objects.write_document("scheduler.json", document)
            return True

        self._patiently(ask, "chance to write scheduler.json")
        self._previous = document
        self._host.book.say(f"listening at {document['private_address']}, boot {boot}")
        self._host.reporter.enter(states.RUNNING)
        if self._host.cluster["scheduler"].get("extra_worker"):
            self._extra_worker = ExtraWorker(self._host, document)

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
            mailbox=self._host.mailbox,
        )

    def _end_cluster(self, end: Exit) -> None:
        """Dask ended the scheduler itself, for instance after its idle timeout: the cluster is over."""
        reason = f"the scheduler ended itself: {end.reason or 'closed in order'}"
        self._host.book.say(f"{reason}; all groups go to 0")
        self._host.reporter.enter(states.LEAVING, reason)
        self._host.groups.zero()
        self._host.reporter.enter(states.LEFT, reason)
