"""Stop a deployed cluster without Terraform: zero its groups, remove its keys."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from terradask._common.side_by_side import begun, side_by_side
from terradask._observe.documents import is_raised
from terradask._observe.events import write_event_log
from terradask._observe.record import ClusterRecord
from terradask._observe.run_costs.book import close_account
from terradask._observe.secret import ClusterSecret
from terradask._observe.store import HOSTS, OF_A_RUN, RUN
from terradask.errors import AccessDenied, DocumentFormat
from terradask_host.documents import HostReport, Run
from terradask_host.rules.autoscaling_groups import Group
from terradask_modules.names import SCHEDULER_GROUP

logger = logging.getLogger("terradask")

#: Most host reports that are read, one after the other, while a process ends.
REPORTS_AT_EXIT = 50


def stop_cluster(
    record: ClusterRecord,
    *,
    run: Run | None = None,
    is_zero: bool = False,
    wait_seconds: float = 0,
    most_reports: int | None = None,
) -> bool:
    """Stop a cluster, wait at most `wait_seconds` for its end, and return whether keys were
    removed. Do nothing if another run than `run` is active.

    The groups go to zero first. Without a wait, the data for event log and account is read in
    parallel; removals and writes follow after that. After any interruption, the run can be stopped
    again. `most_reports` limits the host reports in the event log.
    """
    is_stopped: Future[bool] = Future()
    # Read again: the start of the run has cached the secret without these keys.
    secret = ClusterSecret(record.aws, record.where)
    with ThreadPoolExecutor(3) as pool:
        current = begun(pool, record.run)
        if run is not None:
            current = partial(_readable_run, current, run)
        note = partial(record_end, record, most_reports=most_reports, done="stopped")
        own = partial(note, current if run is None else lambda: run, when=is_stopped.result)
        noted = own if wait_seconds else begun(pool, own)
        try:
            begun(pool, lambda: secret.exists)
            run_id = None if run is None else run.run_id
            if not is_zero and not zero_groups(record, run_id, current):
                return True
            _await_end(record, wait_seconds)
            active = current() if run is not None else None
            # Else another client has stopped or restarted the cluster.
            is_own = run is None or (active is not None and active.run_id == run.run_id)
            is_stopped.set_result(is_own)
        finally:
            if not is_stopped.done():
                is_stopped.set_result(False)
        hosts = begun(pool, partial(record.objects.names, HOSTS))
        ends: list[Callable[[], Any]] = [
            record.groups.remove_watchdog,
            partial(_remove_keys, record, secret),
        ]
        _, removed = side_by_side(ends, len(ends))
        noted()
        if not is_own:
            # The other client's run is over too.
            note(current)
        ends = [
            lambda: record.objects.delete([*OF_A_RUN, *hosts()]),
            # Last: a caller with an older policy, without this permission, has stopped it anyway.
            record.groups.clear_schedules,
        ]
        side_by_side(ends, len(ends))
    return bool(removed)


def zero_groups(
    record: ClusterRecord,
    run_id: str | None = None,
    current: Callable[[], Run | None] | None = None,
) -> bool:
    """Set all groups to zero, unless another run than `run_id` is active; return whether they were
    set. `current` reads the active run.
    """
    if run_id is None:
        record.find_groups().zero()
        return True
    current = current or partial(_readable_run, record.run)

    def is_replaced() -> bool:
        run = current()
        return run is not None and run.run_id != run_id and record.goes_on(run)

    reads: list[Callable[[], Any]] = [is_replaced, record.groups.describe]
    replaced, described = side_by_side(reads, len(reads))
    if not replaced:
        record.groups.zero(described)
    return not replaced


def _readable_run(read: Callable[[], Run | None], instead: Run | None = None) -> Run | None:
    """Return the run that `read` finds, or `instead` if its document is unreadable: no start wrote
    it.
    """
    try:
        return read()
    except DocumentFormat:
        return instead


def _await_end(record: ClusterRecord, wait_seconds: float) -> None:
    groups = record.groups
    deadline = time.monotonic() + wait_seconds
    while wait_seconds and time.monotonic() < deadline:
        with record.limiter.slot():
            described = groups.describe()
        if not any(group.members for group in described.values()):
            break
        if _is_raised_late(described):
            groups.zero(described)


def _remove_keys(record: ClusterRecord, secret: ClusterSecret) -> bool:
    """Overwrite the keys, so that booting hosts find none; return whether that was allowed."""
    if not secret.exists:
        return True
    try:
        return secret.empty()
    except AccessDenied:
        if not (record.exists and record.descriptor.cluster_settings.private_to_creator):
            raise
        return False


def _is_raised_late(described: Mapping[str, Group]) -> bool:
    """Return whether the scheduler's host raised a group after all were set to zero. A new start
    would have raised the scheduler's group first.
    """
    scheduler = described.get(SCHEDULER_GROUP)
    return is_raised(described) and (scheduler is None or not scheduler.desired)


# ---- the event log and the account of a run that has ended ---------------------------------------


def record_end(
    record: ClusterRecord,
    find_run: Callable[[], Run | None],
    most_reports: int | None = None,
    *,
    done: str | None = None,
    when: Callable[[], bool] = lambda: True,
) -> None:
    """Write the log of a run's events, and its account.

    `find_run` and the documents are read in parallel. `when` decides before a write; `done` is the
    caller's action that ended the run. `most_reports` limits the reading to the latest reports and
    omits prices, for the last seconds of a process.

    Failures are logged: stopping the cluster has priority.
    """
    with ThreadPoolExecutor(3) as pool:
        reports = begun(pool, partial(_reports, record, most_reports))
        scheduler = begun(pool, record.scheduler)
        written_at = begun(pool, partial(record.objects.written_at, RUN))
        run = find_run()
        if run is None:
            return
        close = partial(close_account, record, run, reports, scheduler, written_at, when=when)
        side_by_side(
            [
                partial(write_event_log, record, run, reports, scheduler, when=when),
                partial(close, done=done, with_prices=most_reports is None),
            ],
            2,
        )


def _reports(record: ClusterRecord, most: int | None) -> list[HostReport]:
    try:
        return record.reports(most)
    except Exception as error:  # noqa: BLE001 - any
        logger.warning("cluster %s: can't read its hosts' reports: %s", record.name, error)
        return []
