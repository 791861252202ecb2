"""Logs in the form in which Dask's own clusters return them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from terradask_modules.names import SCHEDULER_GROUP

if TYPE_CHECKING:
    from terradask._deployments.logs.lines import LogLine

#: So many lines of all hosts are returned, the newest: Dask keeps 10,000 of each.
LOG_LINES = 100_000


#: Names of Dask workers: several on a host have a number, the one beside the scheduler a prefix.
_WORKER = re.compile(r"(?:scheduler-)?(i-[0-9a-f]+)(?:-\d+)?", re.ASCII)


def asked_hosts(*, scheduler: bool, workers: bool | Iterable[str]) -> list[str]:
    """Return the words for the hosts that are asked for."""
    from terradask._deployments.logs.question import WORKERS

    named = [workers] if isinstance(workers, str) else workers
    chosen = [WORKERS] if named is True else [_WORKER.sub(r"\1", one) for one in named or ()]
    return [SCHEDULER_GROUP, *chosen] if scheduler else chosen


def dask_logs(lines: Iterable[LogLine], cluster_log: Iterable[str] | None) -> Any:
    """Return each host's text by the name that Dask gives its worker."""
    from distributed.utils import Log, Logs

    texts: dict[str, list[str]] = {} if cluster_log is None else {"Cluster": [*cluster_log]}
    for line in lines:
        name = "Scheduler" if line.group == SCHEDULER_GROUP else line.host
        texts.setdefault(name, []).append(line.plain_text)
    return Logs({name: Log("\n".join(text)) for name, text in texts.items()})
