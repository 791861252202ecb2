"""Read the reports of a cluster's runs, each with the events of its run."""

from __future__ import annotations

from terradask._deployments.events.gather import events_in, events_of_run
from terradask._deployments.events.timeline import Event
from terradask._deployments.record import ClusterRecord
from terradask._deployments.run_reports.kept import ReportStore
from terradask._deployments.run_reports.report import RunReport
from terradask.errors import ClusterNotFound, ReportNotFound


def read_report(record: ClusterRecord, run: str | None) -> RunReport:
    """Return a run's report. Raises `ReportNotFound`."""
    store = store_of(record)
    for kept in store.list(run)[:1]:
        if (page := store.read(kept)) is not None:
            return RunReport.of(record.name, kept, page, _events(record, store, kept.run))
    raise ReportNotFound(record.name, run, sorted({one.run for one in store.list()}))


def store_of(record: ClusterRecord) -> ReportStore:
    """Return where a cluster's reports are."""
    return ReportStore(record.aws, record.bucket, record.name)


def _events(record: ClusterRecord, store: ReportStore, run_id: str) -> list[Event]:
    """Return a run's events: those kept at its end, else those that AWS and its hosts have now."""
    if (document := store.events(run_id)) is not None:
        return events_in(document)
    run = record.run()
    try:
        return events_of_run(record, run) if run is not None and run.run_id == run_id else []
    except ClusterNotFound:
        # Its groups went before what else there is of it.
        return []
