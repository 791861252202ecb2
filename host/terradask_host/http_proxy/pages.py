"""The pages of a scheduler: our own, which clients ask for over mutual TLS and without Dask's
protocol, and which of them a link opens. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from terradask_host.http_proxy.request import Request

#: What the paths of clients' own begin with. No link that a browser opens leads there.
OWN = "/terradask/"

#: Takes commands.
COMMAND_PAGE = "/terradask/command"

#: Has the gauges, for Prometheus with its own certificate.
METRICS_PAGE = "/metrics"

#: Whether a request that was let in is passed on.
Opens = Callable[[Request], bool]

#: What Bokeh asks for to draw a plot.
_PARTS = ("", "/ws", "/autoload.js", "/metadata")

#: Dask's pages about workers and tasks, and the files of all pages. Not logs, call stacks and what
#: programs ask for.
_PAGES = re.compile(
    r"/|/favicon\.ico|/(?:static|statics)/.*|/info"
    r"|/info/main/(?:workers|exceptions)\.html|/info/(?:worker|task)/[^/]*\.html"
)


def watching(plots: Iterable[str]) -> Opens:
    """Return what opens the dashboard for people who only watch: these plots, by their paths, and
    the pages about workers and tasks. Whatever else a scheduler serves stays closed.
    """
    opened = frozenset(plot + part for plot in plots for part in _PARTS)

    def opens(request: Request) -> bool:
        reads = request.method in ("GET", "HEAD")
        return reads and (request.path in opened or _PAGES.fullmatch(request.path) is not None)

    return opens


def dasks_own(request: Request) -> bool:
    """Return whether it is for a page of Dask's: ours are for programs with a certificate."""
    return not request.path.startswith(OWN)
