"""Proofs of instances on their way from a worker's start document into its registration.

`CarriedProof` travels pickled, into a nanny's worker process: its name and its module's stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from terradask_host.rules.instance_proof import PROOF_KEY


@dataclass(frozen=True)
class CarriedProof:
    """Gives a worker's registration the proof; Dask asks each of its ``startup_information``."""

    proof: Mapping[str, Any]

    def __call__(self, worker: Any) -> Mapping[str, Any]:
        """Return the proof."""
        return self.proof


def startup_information(proof: Mapping[str, Any]) -> dict[str, CarriedProof]:
    """Return the argument of a Dask worker by which its registration carries the proof."""
    return {PROOF_KEY: CarriedProof(proof)}
