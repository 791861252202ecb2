"""``RunReport``: a page for a browser with a run's events and, in a sandbox, Dask's report.

Dask's report is HTML with scripts, from a host that runs tasks' code. The frame's sandbox gives it
a separate origin without access to files and cookies; the page's policy, which applies to the frame
too, forbids it to load or send anything.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from terradask._common.clock import utc_text
from terradask._common.pages import html_page
from terradask._observe.events import (
    Event,
    events_of_run,
    observed_by_hosts,
    read_events,
    without_repeats,
)
from terradask._observe.record import ClusterRecord
from terradask._observe.reports.store import ReportStore
from terradask.errors import ClusterNotFound, ReportNotFound
from terradask_host.documents import HostReport, plain_lines, plain_text

if TYPE_CHECKING:
    from terradask._observe.advice import Advice


@dataclass(frozen=True)
class RunReport:
    """What one run of a cluster did.

    Parameters
    ----------
    cluster
        The cluster's name.
    run
        Id of the run.
    boot
        Number of the scheduler's process that has made the report.
    at
        Time in UTC at which it was kept.
    events
        The events of the run, oldest first, as far as they are known.
    advice
        Observations of the run, each with the settings to change.
    html
        Dask's performance report. It has scripts and comes from a host that runs tasks' code:
        open what `save` writes, which encloses it, and not this.
    """

    cluster: str
    run: str
    boot: int
    at: datetime.datetime
    events: tuple[Event, ...] = field(repr=False)
    html: str = field(repr=False)
    advice: tuple[Advice, ...] = ()

    @property
    def page(self) -> str:
        """The page that `save` writes: advice, events, and the report in a frame that can load,
        send and reach nothing.
        """
        return html_page(
            "run_report",
            policy=POLICY,
            title=plain_lines(f"{self.cluster}, run {self.run}"),
            at=utc_text(self.at),
            advice=[plain_text(str(one)) for one in self.advice],
            heads=_HEADS,
            rows=plain_lines([_cells(event) for event in without_repeats(self.events)]),
            report=self.html,
        )

    def save(self, path: str | Path | None = None) -> Path:
        """Write the page to a file that only you can read.

        Parameters
        ----------
        path
            File, or folder for ``<cluster>-<run>.html``. By default the working directory.

        Returns
        -------
        Path
            The file.
        """
        target = Path() if path is None else Path(path)
        if target.is_dir():
            target = target / f"{self.cluster}-{self.run}.html"
        target.touch(mode=0o600)
        target.write_text(self.page, encoding="utf-8")
        return target


def read_report(record: ClusterRecord, run: str | None) -> RunReport:
    """Return a run's report. Raises `ReportNotFound`."""
    store = record.report_store
    for kept in store.list(run)[:1]:
        if (page := store.read(kept)) is not None:
            events = _events(record, store, kept.run)
            found = advice_of(record, kept.run)
            return RunReport(
                record.name, kept.run, kept.boot, kept.at, tuple(events), page, advice=found
            )
    raise ReportNotFound(record.name, run, sorted({one.run for one in store.list()}))


def advice_of(
    record: ClusterRecord, run_id: str | None = None, hosts: Sequence[HostReport] | None = None
) -> tuple[Advice, ...]:
    """Return the advice on a run, on the current one, or without that on the last one; its hosts'
    reports are read, unless given.

    The events of a run that has ended are stored beside its report.
    """
    # pydantic is slow to import
    from terradask._observe.advice import read_advice

    if run_id is None:
        run = record.run()
        run_id = record.report_store.last_observed() if run is None else run.run_id
        if run_id is None:
            return ()
    if (document := record.report_store.events(run_id)) is not None:
        return read_advice(record, run_id, read_events(document))
    if hosts is None:
        hosts = [each for each in record.reports() if each.run_id == run_id]
    return read_advice(record, run_id, list(observed_by_hosts(hosts)), hosts)


def _events(record: ClusterRecord, store: ReportStore, run_id: str) -> list[Event]:
    """Return a run's events: those stored at its end, else the current ones of AWS and hosts."""
    if (document := store.events(run_id)) is not None:
        return read_events(document)
    run = record.run()
    try:
        return events_of_run(record, run) if run is not None and run.run_id == run_id else []
    except ClusterNotFound:
        # The cluster's groups are deleted before its documents.
        return []


# ---- the page -----------------------------------------------------------------------------------

#: Bokeh's scripts and styles are inside the report, and Bokeh compiles some functions.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'unsafe-inline' 'unsafe-eval'",
        "style-src 'unsafe-inline'",
        "img-src data:",
        "font-src data:",
        "frame-src 'none'",
        "form-action 'none'",
        "base-uri 'none'",
    )
)

_HEADS = ("at", "subject", "group", "state", "reason")


def _cells(event: Event) -> tuple[str | None, ...]:
    return utc_text(event.at), event.subject, event.group, event.word, event.reason
