"""Whether a call is let in: by its signature, by the throttle, by IAM."""

from __future__ import annotations

from typing import Any

from terradask_simulator.aws.endpoint.signatures import Signatures
from terradask_simulator.aws.fidelity.throttling import Throttle
from terradask_simulator.aws.iam.gate import Gate
from terradask_simulator.aws.iam.operation import read_operation
from terradask_simulator.aws.iam.refusals import Refusal

__all__ = ["Admission"]


class Admission:
    """What a call passes before it reaches moto; without a gate, policies are not asked."""

    def __init__(self, signatures: Signatures, throttle: Throttle, gate: Gate | None) -> None:
        self._signatures = signatures
        self._throttle = throttle
        self._gate = gate

    def refusal(self, environ: dict[str, Any], body: bytes) -> Refusal | None:
        """Return why a call is refused, or None; call it with the state's lock held."""
        if self._signatures.expired or self._signatures.ahead_seconds:
            refusal = self._signatures.check(read_operation(environ, body))
            if refusal is not None:
                return refusal
        if self._throttle.factor:
            refusal = self._throttle.check(read_operation(environ, body))
            if refusal is not None:
                return refusal
        return None if self._gate is None else self._gate.check(environ, body)
