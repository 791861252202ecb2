"""The methods of `Deployment` that read reports and advice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from terradask._observe.advice import Advice
    from terradask._observe.record import ClusterRecord
    from terradask._observe.reports.report import RunReport
    from terradask_host.documents import HostReport


@dataclass(frozen=True)
class ReadableReports:
    """Read what a cluster's runs did."""

    record: ClusterRecord

    def report(self, run: str | None = None) -> RunReport:
        """Return the report on a run: Dask's performance report (task stream, profiles, transfers)
        and the run's events.

        The scheduler's host makes it at the run's end and on request. The bucket keeps it for 30
        days, also when the cluster is stopped or destroyed.

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
        from terradask._observe.reports.report import read_report

        return read_report(self.record, run)

    def advice(
        self, run: str | None = None, hosts: Sequence[HostReport] | None = None
    ) -> tuple[Advice, ...]:
        """Return what a run shows, and which settings to change.

        Parameters
        ----------
        run
            Id of the run. By default the current one, or the last one.
        hosts
            The reports of its hosts, if they have been read.

        Returns
        -------
        tuple of Advice
            Each with ``rule``, ``group``, ``text`` and ``change``. Empty for the first 10 minutes.

        Notes
        -----
        Permissions needed: those of `report`; ``s3:GetObject`` on ``accounts/*`` and those of
        `list_instance_types` for a cheaper type, which is left out without them.
        """
        from terradask._observe.reports.report import advice_of

        return advice_of(self.record, run, hosts)
