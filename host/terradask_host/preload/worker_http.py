"""Replaces workers' HTTP servers, which a host doesn't need, by one that doesn't listen.

They have no authentication. Any class may create workers, in processes of its own; all import the
modules in ``distributed.worker.http.routes`` before they listen, and on hosts only this module is
listed there.
"""

from __future__ import annotations

from typing import Any

from distributed import Worker

from terradask_host.preload.http_servers import make_server

#: Read by Dask: no page is served.
routes: list[tuple[Any, ...]] = []


def _listen_nowhere(worker: Any, routes: Any, *_: Any, **__: Any) -> None:
    make_server(worker, routes, port=0)


Worker.start_http_server = _listen_nowhere
