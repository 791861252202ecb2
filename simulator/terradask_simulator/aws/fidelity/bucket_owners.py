"""A bucket is its owner's: a request that expects another account's is refused.

moto ignores the condition. `Verifying bucket ownership
<https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucket-owner-condition.html>`_
"""

from __future__ import annotations

from terradask_simulator.aws.iam.operation import Operation
from terradask_simulator.aws.iam.refusals import Refusal, worded

__all__ = ["check_owner"]

_HEADER = "x-amz-expected-bucket-owner"


def check_owner(operation: Operation) -> Refusal | None:
    """Return the refusal of a request for a bucket of another account than it expects."""
    expected = operation.headers.get(_HEADER)
    if operation.service != "s3" or not expected:
        return None
    from moto.s3.models import s3_backends

    bucket = operation.path.lstrip("/").partition("/")[0]
    _, owner = s3_backends.bucket_accounts.get(bucket, ("", expected))
    return None if expected == owner else worded(operation, "AccessDenied", "Access Denied")
