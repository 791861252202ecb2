"""Proofs of instances on their way: from a worker's start document into its registration, and from
the scheduler to the host program, which has AWS check them.

`CarriedProof` travels pickled, into a nanny's worker process: its name and its module's stay.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from terradask_host.rules.instance_proof import PROOF_KEY, Verdict


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


class ProofRequests:
    """Sends proofs to the host program and waits for its verdicts. Used from one event loop."""

    def __init__(self, report: Callable[..., None]) -> None:
        self._report = report
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[tuple[Verdict, str]]] = {}

    async def verdict(self, role: str, instance_id: str, proof: object) -> tuple[Verdict, str]:
        """Return whether a proof is the instance's, and why not."""
        number = next(self._numbers)
        waiting: asyncio.Future[tuple[Verdict, str]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        try:
            self._report("proof", number=number, role=role, instance_id=instance_id, proof=proof)
            return await waiting
        finally:
            del self._waiting[number]

    def take(self, number: int, verdict: str, why: str) -> None:
        """Take a verdict from the host program."""
        waiting = self._waiting.get(number)
        if waiting is not None and not waiting.done():
            waiting.set_result((Verdict(verdict), why))
