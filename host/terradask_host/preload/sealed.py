"""What clients send in a wrapper that Dask's log doesn't show."""

from __future__ import annotations

from typing import Any


def unsealed(sealed: Any) -> bytes:
    """Return what is in the wrapper."""
    from distributed.protocol import Serialized, deserialize

    found: bytes = (
        deserialize(sealed.header, sealed.frames) if isinstance(sealed, Serialized) else sealed
    )
    return found
