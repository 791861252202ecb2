"""What a run did, as users get it: a page to open, with the run's events."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from terradask._deployments.events.timeline import Event
from terradask._deployments.run_reports.kept import KeptReport
from terradask._deployments.run_reports.page import report_page


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

    @classmethod
    def of(cls, cluster: str, kept: KeptReport, html: str, events: Iterable[Event]) -> RunReport:
        """Return the report that is kept."""
        return cls(cluster, kept.run, kept.boot, kept.at, tuple(events), html)

    @property
    def page(self) -> str:
        """The page that `save` writes: the events, and the report in a frame that can load, send
        and reach nothing.
        """
        return report_page(self.cluster, self.run, self.at, self.html, self.events)

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
