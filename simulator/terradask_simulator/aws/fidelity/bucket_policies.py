"""Bucket policies deny what they say, not everything.

moto evaluates a statement without its condition, so that "deny without TLS", which every careful
bucket has, denies all reads and writes. Statements with conditions are left out here: loopback
counts as TLS, and no other condition can be judged at this place.
"""

from __future__ import annotations

import json
from typing import Any

__all__ = ["install", "without_conditions"]


def without_conditions(policy: bytes) -> bytes:
    """Return a policy without its conditional statements."""
    document = json.loads(policy)
    statements = document["Statement"]
    listed = statements if isinstance(statements, list) else [statements]
    document["Statement"] = [statement for statement in listed if not statement.get("Condition")]
    return json.dumps(document).encode()


def install() -> None:
    """Replace moto's evaluation of bucket policies."""
    from moto.s3.models import FakeBucket

    evaluate = FakeBucket.get_permission

    def get_permission(bucket: Any, action: str, resource: str) -> Any:
        whole = bucket.policy
        if whole is None:
            return evaluate(bucket, action, resource)
        bucket.policy = without_conditions(whole)
        try:
            return evaluate(bucket, action, resource)
        finally:
            bucket.policy = whole

    FakeBucket.get_permission = get_permission
