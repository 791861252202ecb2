"""A scheduler's pages by audience: own ones over mutual TLS, and those a link opens. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from terradask_host.http_proxy.request import Request

#: Prefix of terradask's own paths, which browsers' links never open.
OWN = "/terradask/"

#: Receives commands.
COMMAND_PAGE = "/terradask/command"

#: Serves the gauges, for Prometheus with its own certificate.
METRICS_PAGE = "/metrics"

#: Returns whether an admitted request is passed on.
Opens = Callable[[Request], bool]

#: Bokeh's requests for a plot.
_PARTS = ("", "/ws", "/autoload.js", "/metadata")

#: Dask's pages about workers and tasks, and static files; no logs, call stacks or pages for
#: programs.
_PAGES = re.compile(
    r"/|/favicon\.ico|/(?:static|statics)/.*|/info"
    r"|/info/main/(?:workers|exceptions)\.html|/info/(?:worker|task)/[^/]*\.html"
)


def watching(plots: Iterable[str]) -> Opens:
    """Return the filter of a read-only dashboard: plots by path, pages about workers and tasks."""
    opened = frozenset(plot + part for plot in plots for part in _PARTS)

    def opens(request: Request) -> bool:
        reads = request.method in ("GET", "HEAD")
        return reads and (request.path in opened or _PAGES.fullmatch(request.path) is not None)

    return opens


def is_dask_page(request: Request) -> bool:
    """Return whether a request is for a page of Dask's; terradask's own need a certificate."""
    return not request.path.startswith(OWN)
