"""The HTTP servers of workers, of which a host needs nothing: they listen nowhere.

They would ask for neither certificate nor token. Workers may be made by any class, in processes of
their own. All of these import what ``distributed.worker.http.routes`` names before they listen, and
on hosts that is this module alone.
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
