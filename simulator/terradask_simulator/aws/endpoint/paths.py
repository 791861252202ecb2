"""Paths of the endpoint that are the simulator's own."""

from __future__ import annotations

__all__ = ["CONTROL_PREFIX", "OWN_ADDRESS_PATH"]

#: Below it the simulator is asked and told, without a signature.
CONTROL_PREFIX = "/terradask-sim/"

#: Where the endpoint says from which address a client is seen, as plain text.
OWN_ADDRESS_PATH = f"{CONTROL_PREFIX}address"
