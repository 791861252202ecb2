"""Detect uploads to a scheduler: a graph or data that a client sends is work, long before Dask
registers it.
"""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Iterable, Mapping
from typing import Any

#: Clients' heartbeats and polls stay far below, any upload far above.
UPLOAD_BYTES_A_SECOND = 16_384

# `tcpi_bytes_received` in `struct tcp_info`, part of Linux's stable interface:
# https://github.com/torvalds/linux/blob/v6.1/include/uapi/linux/tcp.h#L214
_RECEIVED = struct.Struct("=Q")
_RECEIVED_OFFSET = 128


class Uploads:
    """Detects from call to call whether any connection receives much data."""

    def __init__(self) -> None:
        self._before: dict[Any, int] = {}
        self._at: float | None = None

    def check(self, comms: Iterable[Any], now: float) -> bool:
        """Return whether one of these connections has received much data since the last call."""
        received = {comm: number for comm in comms if (number := received_bytes(comm)) is not None}
        seconds = None if self._at is None else now - self._at
        much = seconds is not None and self._much(received, seconds)
        self._before, self._at = received, now
        return much

    def _much(self, received: Mapping[Any, int], seconds: float) -> bool:
        # A new connection includes its handshake: it counts from its second call on.
        return any(
            number - self._before.get(comm, number) > UPLOAD_BYTES_A_SECOND * seconds
            for comm, number in received.items()
        )


def received_bytes(comm: Any) -> int | None:
    """Return how many bytes the kernel has received on a connection; None if that is
    unavailable.
    """
    plug = getattr(getattr(comm, "stream", None), "socket", None)
    if plug is None or sys.platform != "linux":
        return None
    try:
        facts = plug.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    except OSError:
        return None
    if len(facts) < _RECEIVED_OFFSET + _RECEIVED.size:
        return None
    (number,) = _RECEIVED.unpack_from(facts, _RECEIVED_OFFSET)
    return int(number)
