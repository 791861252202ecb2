"""Whether a request is let in: by where it comes from, its signature, the throttle, IAM."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from terradask_simulator.aws.endpoint.door import Door
from terradask_simulator.aws.endpoint.signatures import Signatures
from terradask_simulator.aws.fidelity.buckets import check_owner
from terradask_simulator.aws.fidelity.throttling import Throttle
from terradask_simulator.aws.iam.gate import Gate
from terradask_simulator.aws.iam.operation import Operation
from terradask_simulator.aws.iam.refusals import Refusal

__all__ = ["Admission"]

_log = logging.getLogger(__name__)


class Admission:
    """What a request passes before it is answered; without a gate, policies are not asked."""

    def __init__(
        self, door: Door, signatures: Signatures, throttle: Throttle, gate: Gate | None
    ) -> None:
        self._door = door
        self._signatures = signatures
        self._throttle = throttle
        self._gate = gate

    def foreign(self, environ: Mapping[str, Any]) -> str:
        """Return why a request isn't one of a program of this machine, or nothing."""
        problem = self._door.problem(environ)
        if problem:
            _log.warning("refused: %s", problem)
        return problem

    def unsigned(
        self, operation: Operation, environ: Mapping[str, Any], body: bytes
    ) -> Refusal | None:
        """Return the refusal of a request that isn't signed with a valid key, or None."""
        refusal = self._signatures.check(operation, environ, body)
        if refusal is not None:
            _log.warning("refused: %s %r: %s", operation.method, operation.path, refusal.code)
        return refusal

    def date_header(self) -> tuple[tuple[str, str], ...]:
        """Return AWS's time for an answer; nothing if it is this machine's."""
        return self._signatures.date_header()

    def is_owner(self, operation: Operation) -> bool:
        """Return whether a request that isn't `unsigned` is signed with the owner's key."""
        return self._signatures.is_owner(operation)

    def refusal(self, operation: Operation) -> Refusal | None:
        """Return why a call is refused, or None; call it with the state's lock held."""
        refusal = self._throttle.check(operation) if self._throttle.factor else None
        refusal = check_owner(operation) if refusal is None else refusal
        if refusal is None and self._gate is not None:
            refusal = self._gate.check(operation)
        return refusal
