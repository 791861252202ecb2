"""Pass proofs of instances from a worker's start document to its registration.

`CarriedProof` is pickled into a nanny's worker process: don't rename it or this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from terradask_host.rules.instance_proof import PROOF_KEY


@dataclass(frozen=True)
class CarriedProof:
    """Returns the proof to a worker's registration, as one of its ``startup_information``."""

    proof: Mapping[str, Any]

    def __call__(self, worker: Any) -> Mapping[str, Any]:
        """Return the proof."""
        return self.proof


def startup_information(proof: Mapping[str, Any]) -> dict[str, CarriedProof]:
    """Return the Dask worker argument with which its registration carries the proof."""
    return {PROOF_KEY: CarriedProof(proof)}
