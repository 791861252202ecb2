"""Refuse calls for what AWS doesn't know yet, or hasn't finished: one module a subject, each off
until it is switched on. Call these functions with the state's lock held.
"""

from __future__ import annotations

from terradask_simulator.aws.fidelity.contention import check_contention
from terradask_simulator.aws.fidelity.deleted_secrets import check_secrets, note_secret
from terradask_simulator.aws.fidelity.young_buckets import check_buckets, note_bucket
from terradask_simulator.aws.fidelity.young_identities import check_identities
from terradask_simulator.aws.fidelity.young_resources import check_resources, note_resource
from terradask_simulator.aws.iam.operation import Operation
from terradask_simulator.aws.iam.refusals import Refusal

__all__ = ["check_not_yet", "note_served"]


def check_not_yet(operation: Operation) -> Refusal | None:
    """Return the error for a call that comes too early, or None."""
    return (
        check_contention(operation)
        or check_identities(operation)
        or check_buckets(operation)
        or check_resources(operation)
        or check_secrets(operation)
    )


def note_served(operation: Operation, status: str, body: bytes) -> None:
    """Note what a call has created or deleted."""
    note_bucket(operation, status)
    note_resource(operation, status, body)
    note_secret(operation, status)
