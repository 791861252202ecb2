"""Write the event log and the account of a run that has ended."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from terradask._common.side_by_side import begun, side_by_side
from terradask._observe.events import write_event_log
from terradask._observe.record import ClusterRecord
from terradask._observe.run_costs.book import close_account
from terradask._observe.store import RUN
from terradask_host.documents import HostReport, Run

logger = logging.getLogger("terradask")


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
