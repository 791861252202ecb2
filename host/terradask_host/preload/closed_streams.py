"""Turn TLS connections that the peer closes during the handshake into an ``OSError``.

Tornado raises a ``ValueError``, which Dask takes for a defect: a client doesn't try again, and a
worker whose peer goes away at that moment fails its tasks or waits for ever. See
https://github.com/dask/distributed/issues/6877.
"""

from __future__ import annotations

from typing import Any

from distributed.comm import Comm, CommClosedError, backends
from distributed.comm.tcp import TLSBackend, TLSConnector

#: Message of tornado's ``IOStream.start_tls`` for a closed stream.
_CLOSED = "IOStream is not idle"


class _Connector(TLSConnector):  # type: ignore[misc]  # distributed has no types
    async def connect(self, address: str, *args: Any, **kwargs: Any) -> Comm:
        try:
            return await super().connect(address, *args, **kwargs)
        except ValueError as error:
            if _CLOSED not in str(error):
                raise
            raise CommClosedError(f"{address} closed the connection at once") from error


class _Backend(TLSBackend):  # type: ignore[misc]  # distributed has no types
    _connector_class = _Connector


# As a patch: host/upstream/tls-closed-at-once.patch
def expect_closed_streams() -> None:
    """Make all TLS connections of this process fail as Dask expects."""
    if not isinstance(backends["tls"], _Backend):
        backends["tls"] = _Backend()


def dask_setup(server: object) -> None:
    """Call `expect_closed_streams` in a worker's own process, as a preload module of Dask's."""
    expect_closed_streams()
