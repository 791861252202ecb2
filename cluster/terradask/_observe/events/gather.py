"""Collect a cluster's events from AWS, hosts and event logs, and write event logs."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from terradask._common.side_by_side import side_by_side
from terradask._observe.events.timeline import (
    Event,
    failures_of,
    merge,
    moment,
    notes_of,
    observed_by_aws,
    observed_by_hosts,
    run_events,
)
from terradask._observe.record import ClusterRecord
from terradask._observe.reports.store import ReportStore
from terradask._observe.store import EVENTS
from terradask.errors import ClusterNotFound
from terradask_host.documents import HostReport, Run, SchedulerAddress

logger = logging.getLogger("terradask")

#: Number of runs whose event logs are kept.
KEPT_RUNS = 10

_THREADS = 8

_FORMAT = 1


def cluster_events(record: ClusterRecord) -> list[Event]:
    """Return the events of a cluster and its hosts, oldest first, also of earlier runs."""
    run = record.run() if record.descriptor else None
    return [*read_event_logs(record), *(events_of_run(record, run) if run is not None else ())]


def events_of_run(
    record: ClusterRecord,
    run: Run,
    read_reports: Callable[[], Sequence[HostReport]] | None = None,
    read_scheduler: Callable[[], SchedulerAddress | None] | None = None,
) -> list[Event]:
    """Return the events of a run; by default all reports are read, with one call for each host."""
    since = moment(run.started_at)
    groups = record.groups
    found: list[Any] = side_by_side(
        [
            *(partial(groups.activities, name, since) for name in groups.names),
            read_reports or record.reports,
            read_scheduler or record.scheduler,
        ],
        _THREADS,
    )
    *activities, every_report, scheduler = found
    shown = dict(zip(groups.names, activities, strict=True))
    reported = [report for report in every_report if report.belongs_to(run.run_id)]
    observed = [
        *observed_by_hosts(reported),
        *(one for name, each in shown.items() for one in observed_by_aws(name, each)),
    ]
    failures = [event for name, each in shown.items() for event in failures_of(name, each)]
    return merge(observed, [*run_events(run, scheduler), *notes_of(reported), *failures])


def write_event_log(
    record: ClusterRecord,
    run: Run,
    read_reports: Callable[[], Sequence[HostReport]] | None = None,
    read_scheduler: Callable[[], SchedulerAddress | None] | None = None,
    *,
    done: str = "stopped",
    when: Callable[[], bool] = lambda: True,
) -> None:
    """Write the log of a stopped or destroyed run, and delete the oldest logs, if `when` allows it
    after the reads; failures are logged.
    """
    objects, by = record.objects, record.aws.caller_arn
    try:
        stopped = Event(
            datetime.datetime.now(datetime.UTC),
            "cluster",
            None,
            "stopped",
            reason=f"{done} by {by}",
        )
        read = partial(events_of_run, record, run, read_reports, read_scheduler)
        reads: list[Callable[[], Any]] = [read, lambda: objects.names(EVENTS)]
        events, names = side_by_side(reads, len(reads))
        if not when():
            return
        listed = [event.as_dict() for event in [*events, stopped]]
        document = {"format": _FORMAT, "run_id": run.run_id, "events": listed}
        own = f"{EVENTS}{run.run_id}.json"
        # Also beside its reports, which outlive the cluster.
        reports = ReportStore(record.aws, record.bucket, record.name)
        writes = [partial(objects.write, own, document), partial(reports.keep_events, document)]
        side_by_side(writes, len(writes))
        objects.delete(sorted({*names, own})[:-KEPT_RUNS])
    except ClusterNotFound:
        # An interrupted destruction has removed its structure already.
        logger.debug("cluster %s: no event log of run %s", record.name, run.run_id)
    except Exception:
        # Stopping has priority.
        logger.warning(
            "cluster %s: can't write the event log of run %s",
            record.name,
            run.run_id,
            exc_info=True,
        )


def read_event_logs(record: ClusterRecord) -> list[Event]:
    """Return the events of stopped runs with stored logs."""
    documents = record.objects.read_all(sorted(record.objects.names(EVENTS)))
    return [event for document in documents if document for event in read_events(document)]


def read_events(document: Any) -> list[Event]:
    """Return the events of a log; none if it doesn't match its format."""
    try:
        return (
            [_read_event(event) for event in document["events"]]
            if document["format"] == _FORMAT
            else []
        )
    except (AttributeError, LookupError, TypeError, ValueError):
        return []


def _read_event(document: Mapping[str, Any]) -> Event:
    texts = {name: document.get(name) for name in ("group", "step", "reason")}
    return Event(moment(document["at"]), document["subject"], state=document["state"], **texts)
