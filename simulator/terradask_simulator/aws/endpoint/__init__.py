"""The HTTP endpoint: what each request passes before and after moto."""

from __future__ import annotations

__all__ = ["CONTROL_PREFIX", "CONTROL_SERVICE", "OWN_ADDRESS_PATH"]

#: Below it are requests to the simulator itself, signed with the owner's key.
CONTROL_PREFIX = "/terradask-sim/"

#: The service that signatures of such requests name.
CONTROL_SERVICE = "terradask-sim"

#: Where the endpoint says from which address a client is seen, as plain text; without a signature.
OWN_ADDRESS_PATH = f"{CONTROL_PREFIX}address"
