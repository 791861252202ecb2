"""The public methods of a deployment that read what its runs did."""

from __future__ import annotations

from terradask._deployments.events.gather import events_in, events_of_run, write_event_log
from terradask._deployments.events.timeline import Event
from terradask._deployments.record import ClusterRecord
from terradask._deployments.run_reports.kept import KeptReport, ReportStore
from terradask._deployments.run_reports.report import RunReport
from terradask.errors import ClusterNotFound, DocumentFormat, ReportNotFound


class ReadableReports:
    """Reads the reports of a cluster's runs; `Deployment` makes the record."""

    name: str
    _record: ClusterRecord

    def report(self, run: str | None = None) -> RunReport:
        """Return what a run did: Dask's performance report (task stream, profiles, transfers), as
        the scheduler's host has kept it at the run's end, or when it was last asked for, and the
        run's events. The bucket keeps both for 30 days, also when the cluster is stopped or
        destroyed.

        Parameters
        ----------
        run
            Id of the run. By default the last one that has a report.

        Returns
        -------
        RunReport
            With ``save()``, which writes the page to open in a browser.

        Raises
        ------
        ReportNotFound
            When no such report is kept; with the runs that have one.
        DocumentFormat
            When it isn't what the scheduler's host writes.

        Notes
        -----
        Permissions needed: ``s3:GetObject`` on ``reports/*`` of the workspace's bucket, and
        ``s3:ListBucket``; for the events of a run that isn't stopped, those of `events`.
        """
        return read_report(self._record, run)

    def kept_reports(self) -> list[KeptReport]:
        """Return which reports are kept, the newest first: each with ``run``, ``boot``, ``at`` and
        ``size_bytes``.

        Notes
        -----
        Permission needed: ``s3:ListBucket`` on the workspace's bucket.
        """
        return store_of(self._record).list()

    def keep_events(self) -> None:
        """Keep the events of the last run where they outlive the cluster, which is about to be
        destroyed. Failures are logged.
        """
        try:
            run = self._record.run()
        except DocumentFormat:
            return
        if run is not None:
            write_event_log(self._record, run, done="destroyed")


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
