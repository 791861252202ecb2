"""Stopping a deployed cluster: groups at zero, keys removed, the deployment kept. No Terraform."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from terradask._clusters.run_end import note_end
from terradask._common.side_by_side import begun, side_by_side
from terradask._observe.record import ClusterRecord
from terradask._observe.secret import ClusterSecret
from terradask._observe.state import is_raised
from terradask._observe.store import HOSTS, OF_A_RUN
from terradask.errors import AccessDenied, DocumentFormat
from terradask_host.documents import Run
from terradask_host.rules.autoscaling_groups import Group
from terradask_modules.names import SCHEDULER_GROUP

#: Reports of hosts that are read while a process ends, one after the other.
REPORTS_AT_EXIT = 50


def stop_cluster(
    record: ClusterRecord,
    *,
    run: Run | None = None,
    is_zero: bool = False,
    wait_seconds: float = 0,
    most_reports: int | None = None,
) -> bool:
    """Stop a cluster, waiting at most so long for its end; return whether keys were removed.

    Nothing is done if another run than `run` goes on. The log of its events has those of the
    latest reports of hosts, if there is a limit.

    The groups go to zero at once. What the log and the account need is read meanwhile, unless this
    waits; nothing is removed or written before. Whatever interrupts this, the run is there to be
    stopped again.
    """
    is_stopped: Future[bool] = Future()
    # As it is now: the start of the run has seen it without these keys.
    secret = ClusterSecret(record.aws, record.where)
    with ThreadPoolExecutor(3) as pool:
        current = begun(pool, record.run)
        if run is not None:
            current = partial(_run_there, current, run)
        note = partial(note_end, record, most_reports=most_reports, done="stopped")
        own = partial(note, current if run is None else lambda: run, when=is_stopped.result)
        noted = own if wait_seconds else begun(pool, own)
        try:
            begun(pool, lambda: secret.exists)
            run_id = None if run is None else run.run_id
            if not is_zero and not zero_groups(record, run_id, current):
                return True
            _await_end(record, wait_seconds)
            there = current() if run is not None else None
            # Else another client has stopped it, or started the cluster again.
            is_own = run is None or (there is not None and there.run_id == run.run_id)
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
            # Another one's, and over too.
            note(current)
        ends = [
            lambda: record.objects.delete([*OF_A_RUN, *hosts()]),
            # Last: a caller whose policy is older than this right has stopped it all the same.
            record.groups.clear_schedules,
        ]
        side_by_side(ends, len(ends))
    return bool(removed)


def zero_groups(
    record: ClusterRecord,
    run_id: str | None = None,
    current: Callable[[], Run | None] | None = None,
) -> bool:
    """Ask for no instance in any group, unless another run than `run_id` goes on; return whether
    that was asked for. `current` reads the run that is there.
    """
    if run_id is None:
        record.find_groups().zero()
        return True
    current = current or partial(_run_there, record.run)

    def is_replaced() -> bool:
        run = current()
        return run is not None and run.run_id != run_id and record.goes_on(run)

    reads: list[Callable[[], Any]] = [is_replaced, record.groups.describe]
    replaced, described = side_by_side(reads, len(reads))
    if not replaced:
        record.groups.zero(described)
    return not replaced


def _run_there(read: Callable[[], Run | None], instead: Run | None = None) -> Run | None:
    """Return the run that is there; another one in its stead where its document can't be read:
    whatever wrote that, no start did.
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
    """Overwrite the keys: hosts that boot now find none."""
    if not secret.exists:
        return True
    try:
        return secret.empty()
    except AccessDenied:
        if not (record.exists and record.descriptor.cluster_settings.private_to_creator):
            raise
        return False


def _is_raised_late(described: Mapping[str, Group]) -> bool:
    """Return whether the scheduler's host has just raised a group after all had gone to zero; a new
    start raises the scheduler's first.
    """
    scheduler = described.get(SCHEDULER_GROUP)
    return is_raised(described) and (scheduler is None or not scheduler.desired)
