"""The HTTP endpoint: processing of each request before and after moto."""

from __future__ import annotations

__all__ = ["CONTROL_PREFIX", "CONTROL_SERVICE", "OWN_ADDRESS_PATH"]

#: Path prefix of requests to the simulator itself, signed with the owner's key.
CONTROL_PREFIX = "/terradask-sim/"

#: The service in the signatures of such requests.
CONTROL_SERVICE = "terradask-sim"

#: Path that returns the client's address as plain text; needs no signature.
OWN_ADDRESS_PATH = f"{CONTROL_PREFIX}address"
