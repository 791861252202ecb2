"""What a run leaves when it has ended: the log of its events, and its account."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from terradask._common.side_by_side import begun, side_by_side
from terradask._observe.events.gather import write_event_log
from terradask._observe.record import ClusterRecord
from terradask._observe.run_costs.run_account import close_account
from terradask._observe.store import RUN
from terradask_host.documents import HostReport, Run

logger = logging.getLogger("terradask")


def note_end(
    record: ClusterRecord,
    find_run: Callable[[], Run | None],
    most_reports: int | None = None,
    *,
    done: str | None = None,
    when: Callable[[], bool] = lambda: True,
) -> None:
    """Write the log of a run's events, and its account; with the latest reports of hosts alone, if
    there is a limit, and no more than the last seconds of a process have time for.

    All is read side by side, also the run. `when` is asked before anything is written; `done` is
    what the caller has done to end it.

    Failures are logged: to stop the cluster matters more.
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
        logger.warning("cluster %s: its hosts' reports can't be read: %s", record.name, error)
        return []
