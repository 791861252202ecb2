"""List and read the performance reports and event logs that are stored in the bucket."""

from __future__ import annotations

import datetime
import logging
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from terradask._aws.s3 import ObjectStore, as_json
from terradask._aws.session import Aws
from terradask._common.json_text import parse_json
from terradask.errors import DocumentFormat
from terradask_host.documents import MOST_REPORT_BYTES, UNREADABLE
from terradask_host.log_streams import RUN_ID
from terradask_host.usage import MOST_USAGE_BYTES, USAGE_SUFFIX, RunUsage
from terradask_modules.names import REPORTED_EVENTS, REPORTS

logger = logging.getLogger("terradask")

#: Largest report that is read, unpacked.
MOST_PAGE_BYTES = 256 * 2**20
#: Largest list of a run's events that is read.
MOST_EVENTS_BYTES = 16 * 2**20
#: Most schedulers of a run whose observations are read, one after the other.
MOST_SCHEDULERS = 20
#: Most listed reports: code on a cluster can write any number of objects.
MOST_REPORTS = 1_000

_USAGE = re.compile(
    rf"(?P<run>{RUN_ID.pattern})/\d{{1,6}}{re.escape(USAGE_SUFFIX)}",
    re.ASCII,
)

_NAME = re.compile(rf"(?P<run>{RUN_ID.pattern})/(?P<boot>\d{{1,6}})\.html\.gz", re.ASCII)


@dataclass(frozen=True)
class KeptReport:
    """A report as the bucket lists it.

    Parameters
    ----------
    run
        Id of the run.
    boot
        Number of the scheduler's process that has made it: higher for one that replaced another in
        the same run.
    at
        Time in UTC since when it is kept.
    size_bytes
        Size as it is kept.
    """

    run: str
    boot: int
    at: datetime.datetime
    size_bytes: int

    @property
    def name(self) -> str:
        """Key below the cluster's prefix."""
        return f"{self.run}/{self.boot}.html.gz"


class ReportStore:
    """The reports of one cluster, whether or not it is deployed.

    Permissions needed: ``s3:GetObject`` on ``reports/<name>/*`` and ``s3:ListBucket``; to keep
    events, ``s3:PutObject``.
    """

    def __init__(self, aws: Aws, bucket: str, cluster: str) -> None:
        self._store = ObjectStore(aws, bucket, f"{REPORTS}{cluster}/")
        self._where = f"s3://{bucket}/{REPORTS}{cluster}/"

    def list(self, run: str | None = None) -> list[KeptReport]:
        """List the reports, of one run or of all, the newest first."""
        found = []
        for name, entry in self._store.entries("" if run is None else f"{run}/"):
            if matched := _NAME.fullmatch(name):
                at = entry["LastModified"].astimezone(datetime.UTC)
                found.append(
                    KeptReport(matched["run"], int(matched["boot"]), at, int(entry["Size"]))
                )
        found.sort(key=lambda one: (one.run, one.boot), reverse=True)
        return found[:MOST_REPORTS]

    def read(self, kept: KeptReport) -> str | None:
        """Return a report's HTML, or None. Raises `DocumentFormat`.

        It comes from a host that runs tasks' code: treat it as untrusted.
        """
        found = self._store.read(kept.name, most_bytes=MOST_REPORT_BYTES)
        where = self._where + kept.name
        return None if found is None else _unpack(found.content, where, MOST_PAGE_BYTES)

    def usage(self, run: str) -> RunUsage | None:
        """Return what a run's workers used, as its schedulers observed it; None if nothing
        readable is stored. Code on a cluster can write it.
        """
        names = [name for name in self._store.names(f"{run}/") if _USAGE.fullmatch(name)]
        found = [
            read for name in names[:MOST_SCHEDULERS] if (read := self._read_usage(name)) is not None
        ]
        total = found[0] if found else None
        for other in found[1:]:
            total = other if total is None else total.plus(other)
        return total

    def last_observed(self) -> str | None:
        """Return the id of the last run whose use of workers is stored."""
        found = (_USAGE.fullmatch(name) for name in self._store.names())
        return max((each["run"] for each in found if each), default=None)

    def _read_usage(self, name: str) -> RunUsage | None:
        try:
            found = self._store.read(name, most_bytes=MOST_USAGE_BYTES)
            if found is None:
                return None
            content = _unpack(found.content, self._where + name, MOST_USAGE_BYTES)
            return RunUsage.read(parse_json(content))
        except (*UNREADABLE, DocumentFormat) as error:
            logger.warning("%s is ignored: %s", self._where + name, type(error).__name__)
            return None

    def keep_events(self, document: Mapping[str, Any]) -> None:
        """Write the log of a run's events beside its reports."""
        self._store.write(f"{document['run_id']}/{REPORTED_EVENTS}", as_json(document))

    def events(self, run: str) -> Any:
        """Return the document of a run's events; None if missing or unreadable."""
        found = self._store.read(f"{run}/{REPORTED_EVENTS}", most_bytes=MOST_EVENTS_BYTES)
        try:
            return None if found is None else parse_json(found.content)
        except ValueError:
            return None


def unpack(content: bytes, most_bytes: int) -> bytes:
    """Return a gzip's content. Raises `zlib.error`, and `ValueError` if it is too large."""
    # 31: the format of gzip.
    unpacking = zlib.decompressobj(31)
    found = unpacking.decompress(content, most_bytes)
    if unpacking.unconsumed_tail:
        raise ValueError("it is too large")
    return found


def _unpack(content: bytes, where: str, most_bytes: int) -> str:
    try:
        return unpack(content, most_bytes).decode(errors="replace")
    except zlib.error as error:
        raise DocumentFormat(
            "a performance report isn't in gzip format",
            given=f"{where}: {error}",
            allowed="a report written by the scheduler's host",
            advice="tasks can write reports of their own: find the run that did",
        ) from error
    except ValueError as error:
        raise DocumentFormat(
            "a performance report is too large",
            given=f"{where}: more than {most_bytes} bytes",
            allowed=f"{most_bytes} bytes unpacked",
            advice="tasks can write reports of their own: find the run that did",
        ) from error
