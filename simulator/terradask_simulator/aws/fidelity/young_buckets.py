"""Calls to buckets that were created or deleted a moment ago, if switched on.

AWS (documented): The configuration of buckets is eventually consistent.
https://docs.aws.amazon.com/AmazonS3/latest/userguide/Welcome.html#ConsistencyModel

For a while after a bucket's creation:

- AWS (reported): HeadBucket, listings, calls about objects and about the configuration answer
  NoSuchBucket. https://github.com/redpanda-data/redpanda/issues/8490
  https://github.com/gchq/sleeper/issues/512 https://github.com/aws-ia/taskcat/issues/421
  Terraform advises to wait "for a minute or two":
  https://github.com/brikis98/terraform-up-and-running-code/issues/115
- AWS (reported): Calls that change or delete the configuration answer OperationAborted.
  https://github.com/hashicorp/terraform-provider-aws/issues/33478
  https://github.com/hashicorp/terraform-provider-aws/issues/26805
  https://github.com/DataBiosphere/toil/issues/1093 https://github.com/ansible/ansible/pull/67811

And after its deletion:

- AWS (reported): CreateBucket with the name of a deleted bucket answers OperationAborted, for up to
  an hour. https://github.com/aws/aws-cli/issues/2593
"""

from __future__ import annotations

import random
import time
from urllib.parse import unquote

from terradask_simulator.aws.iam.operation import Operation
from terradask_simulator.aws.iam.refusals import Refusal, worded
from terradask_simulator.aws.switchboard import Setting

__all__ = ["NEW_BUCKETS", "check_buckets", "note_bucket"]

#: How often, and for how long, calls to new buckets fail.
NEW_BUCKETS = Setting(share=0.0, seconds=60.0, seed=0)

_CREATED: dict[str, float] = {}
_DELETED: dict[str, float] = {}


def check_buckets(operation: Operation) -> Refusal | None:
    """Return the error for a call to a bucket that was just created or deleted, or None."""
    if not NEW_BUCKETS.share or operation.service != "s3":
        return None
    bucket, key = _named(operation)
    makes = operation.method == "PUT" and not key and not _asked(operation)
    changed = (_DELETED if makes else _CREATED).get(bucket)
    if changed is None or time.monotonic() - changed >= NEW_BUCKETS.seconds:
        return None
    changes = not key and operation.method in ("PUT", "DELETE")
    if changes and NEW_BUCKETS.draws.random() < NEW_BUCKETS.share:
        return worded(
            operation,
            "OperationAborted",
            "A conflicting conditional operation is currently in progress against this resource. "
            "Please try again.",
            "409 Conflict",
        )
    if makes or not _is_unknown(bucket, time.monotonic() - changed):
        return None
    return worded(operation, "NoSuchBucket", "The specified bucket does not exist", "404 Not Found")


def _is_unknown(bucket: str, age_seconds: float) -> bool:
    """Return whether a new bucket can't be found yet. Terraform's provider waits for HeadBucket,
    and then relies on it.
    """
    # Drawn by the bucket, so that each has one time.
    drawn = random.Random(f"{NEW_BUCKETS.seed} {bucket}")  # noqa: S311  (nothing secret)
    return bool(age_seconds < NEW_BUCKETS.share * drawn.uniform(0.0, NEW_BUCKETS.seconds))


def note_bucket(operation: Operation, status: str) -> None:
    """Note that a bucket was created or deleted."""
    if operation.service != "s3" or not status.startswith("2"):
        return
    bucket, key = _named(operation)
    if bucket and not key and not _asked(operation) and operation.method in ("PUT", "DELETE"):
        mine, others = (_CREATED, _DELETED) if operation.method == "PUT" else (_DELETED, _CREATED)
        others.pop(bucket, None)
        mine[bucket] = time.monotonic()


def _named(operation: Operation) -> tuple[str, str]:
    bucket, _, key = unquote(operation.path).strip("/").partition("/")
    return bucket, key


def _asked(operation: Operation) -> set[str]:
    return set(operation.parameters) - {"x-id"}
