"""What a run leaves when it has ended: the log of its events, and its account."""

from __future__ import annotations

import logging

from terradask._deployments.accounts.run_account import close_account
from terradask._deployments.events.gather import write_event_log
from terradask._deployments.record import ClusterRecord
from terradask_host.documents import Run

logger = logging.getLogger("terradask")


def note_end(
    record: ClusterRecord, run: Run, most_reports: int | None = None, *, done: str | None = None
) -> None:
    """Write the log of a run's events, and its account; with the latest reports of hosts alone, if
    there is a limit, and no more than the last seconds of a process have time for.

    `done` is what the caller has done to end it.

    Failures are logged: to stop the cluster matters more.
    """
    try:
        reports = record.reports(most_reports)
    except Exception as error:  # noqa: BLE001 - any
        logger.warning("cluster %s: its hosts' reports can't be read: %s", record.name, error)
        reports = []
    write_event_log(record, run, reports)
    close_account(record, run, reports, done=done, with_prices=most_reports is None)
