"""Addresses of this machine's loopback that stand for an instance's own."""

from __future__ import annotations

__all__ = ["METADATA_PORT", "loopback_of"]

#: What stands for each host's own 127.0.0.1 lies this many /16 networks above its private address:
#: all share this machine's.
LOOPBACK_OFFSET = 128

#: Where each instance's metadata service answers, on its private address.
METADATA_PORT = 1338


def loopback_of(private_address: str) -> str:
    """Return the address that stands for the loopback of the host with a private address."""
    first, second, rest = private_address.split(".", 2)
    return f"{first}.{int(second) + LOOPBACK_OFFSET}.{rest}"
