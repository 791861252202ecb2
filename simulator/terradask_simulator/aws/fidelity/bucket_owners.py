"""A bucket is its owner's: a request that expects another account's is refused.

moto ignores the condition, and here is one account alone: that a bucket is another's is said by a
switch. `Verifying bucket ownership
<https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucket-owner-condition.html>`_
"""

from __future__ import annotations

from urllib.parse import unquote

from terradask_simulator.aws.iam.operation import Operation
from terradask_simulator.aws.iam.refusals import Refusal, worded

__all__ = ["check_owner", "foreign_owner", "foreign_owners", "set_owner"]

_EXPECTED = "x-amz-expected-bucket-owner"
_SOURCE, _SOURCE_EXPECTED = "x-amz-copy-source", "x-amz-source-expected-bucket-owner"
#: Bucket -> account.
_FOREIGN: dict[str, str] = {}


def set_owner(bucket: str, account: str) -> str:
    """Let a bucket be another account's, or with an empty one its maker's; return whose it was."""
    before = _FOREIGN.pop(bucket, "")
    if account:
        _FOREIGN[bucket] = account
    return before


def foreign_owner(bucket: str) -> str | None:
    """Return the other account that a bucket is of, by `set_owner`."""
    return _FOREIGN.get(bucket)


def foreign_owners() -> dict[str, str]:
    """Return the buckets of other accounts, by `set_owner`."""
    return dict(_FOREIGN)


def check_owner(operation: Operation) -> Refusal | None:
    """Return the refusal of a request for a bucket of another account than it expects."""
    if operation.service != "s3":
        return None
    source = unquote(operation.headers.get(_SOURCE, ""))
    for path, header in ((operation.path, _EXPECTED), (source, _SOURCE_EXPECTED)):
        expected = operation.headers.get(header)
        if expected and _owner(path.lstrip("/").partition("/")[0], expected) != expected:
            return worded(operation, "AccessDenied", "Access Denied")
    return None


def _owner(bucket: str, unknown: str) -> str:
    from moto.s3.models import s3_backends

    _, made_by = s3_backends.bucket_accounts.get(bucket, ("", unknown))
    return _FOREIGN.get(bucket) or str(made_by)
