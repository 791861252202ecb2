"""Buckets: conditional policy statements, delete markers, expected owners, ranges; and, switched
on, the eventual consistency of buckets with new versioning.

- moto evaluates a statement without its condition, so that the common statement "deny without TLS"
  denies all reads and writes. Here statements with conditions are skipped: loopback counts as TLS,
  and other conditions can't be evaluated at this point.
- moto fails with an HTTP 500 when an object with a delete marker is deleted after the suspension of
  its bucket's versioning.
- AWS (documented): S3 refuses a request that expects another account's bucket.
  https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucket-owner-condition.html
  moto ignores the header. The simulator has a single account: a switch assigns a bucket to another
  one.
- AWS (documented): For up to 15 minutes after a bucket's versioning is enabled for the first time,
  reading an object that was created or updated since may fail with ``NoSuchKey``.
  https://docs.aws.amazon.com/AmazonS3/latest/userguide/manage-versioning-examples.html
  That page doesn't mention listings and conditional writes; here they see every object.
- Reading a range costs as much as the range. moto reads the whole object for each range: an archive
  that hosts fetch in a hundred parts would be read a hundred times.
"""

from __future__ import annotations

import json
import re
import time
from contextvars import ContextVar
from typing import Any
from urllib.parse import unquote

from terradask_simulator.aws.fidelity.patching import around
from terradask_simulator.aws.iam.operation import Operation
from terradask_simulator.aws.iam.refusals import Refusal, worded
from terradask_simulator.aws.switchboard import Setting

__all__ = [
    "FOREIGN",
    "NEW_VERSIONING",
    "check_owner",
    "install",
    "without_conditions",
]

#: How often, and for how long, objects of newly versioned buckets aren't found.
NEW_VERSIONING = Setting(share=0.0, seconds=900.0, seed=0)
#: Bucket -> the other account that owns it.
FOREIGN: dict[str, str] = {}

_ACCOUNT = re.compile(r"\d{12}")
_EXPECTED = "x-amz-expected-bucket-owner"
_SOURCE, _SOURCE_EXPECTED = "x-amz-copy-source", "x-amz-source-expected-bucket-owner"

#: Whether the current request is for a range.
_RANGED: ContextVar[bool] = ContextVar("ranged", default=False)


class _Content:
    """An object's content; a slice reads only its own bytes."""

    def __init__(self, key: Any) -> None:
        self._key = key

    def __len__(self) -> int:
        return self._key.contentsize

    def __getitem__(self, part: slice) -> bytes:
        begin, end, _ = part.indices(len(self))
        with self._key.lock:
            self._key._value_buffer.seek(begin)
            found: bytes = self._key._value_buffer.read(end - begin)
        return found


def install() -> None:
    """Replace moto's responses and its evaluation of bucket policies."""
    from moto.s3.exceptions import MissingKey
    from moto.s3.models import FakeBucket, FakeDeleteMarker, FakeKey, S3Backend
    from moto.s3.responses import S3Response

    # A delete marker has no content. As a patch: simulator/upstream/release/s3-delete-markers.patch
    FakeDeleteMarker.dispose = lambda _marker: None

    @around(FakeBucket, "get_permission")
    def get_permission(evaluate: Any, bucket: Any, action: str, resource: str) -> Any:
        whole = bucket.policy
        if whole is None:
            return evaluate(bucket, action, resource)
        bucket.policy = without_conditions(whole)
        try:
            return evaluate(bucket, action, resource)
        finally:
            bucket.policy = whole

    @around(S3Backend, "put_bucket_versioning")
    def put_bucket_versioning(enable: Any, backend: Any, bucket_name: str, status: str) -> None:
        bucket = backend.get_bucket(bucket_name)
        if not hasattr(bucket, "_embedded_versioned_at"):
            bucket._embedded_versioned_at = time.monotonic()
        enable(backend, bucket_name, status)

    @around(S3Response, "get_object")
    def get_object(get: Any, response: Any) -> Any:
        key, versions = response.parse_key_name(), response.querystring.get("versionId")
        if not versions and _misses(response.backend, response.bucket_name):
            raise MissingKey(key=key)
        return get(response)

    @around(S3Response, "head_object")
    def head_object(
        head: Any, response: Any, bucket_name: str, query: Any, *args: Any, **kwargs: Any
    ) -> Any:
        if not query.get("versionId") and _misses(response.backend, bucket_name):
            return 404, {}, ""
        return head(response, bucket_name, query, *args, **kwargs)

    # As a patch: simulator/upstream/release/s3-range-reads.patch
    whole = FakeKey.value

    @around(S3Response, "key_response")
    def key_response(answer: Any, response: Any, request: Any, *args: Any) -> Any:
        token = _RANGED.set(request.method == "GET" and bool(request.headers.get("range")))
        try:
            return answer(response, request, *args)
        finally:
            _RANGED.reset(token)

    @around(S3Response, "_handle_range_header")
    def handle_range(part_of: Any, response: Any, request: Any, headers: Any, content: Any) -> Any:
        # A recipient may ignore such a range: https://www.rfc-editor.org/rfc/rfc9110#section-14.2.
        # moto fails.
        if "=" not in request.headers["range"]:
            return 200, headers, content[:]
        status, headers, found = part_of(response, request, headers, content)
        return status, headers, found[:] if isinstance(found, _Content) else found

    def value(key: Any) -> Any:
        return _Content(key) if _RANGED.get() else whole.fget(key)

    FakeKey.value = property(value, whole.fset)


def without_conditions(policy: bytes) -> bytes:
    """Return a policy without its conditional statements."""
    document = json.loads(policy)
    statements = document["Statement"]
    listed = statements if isinstance(statements, list) else [statements]
    document["Statement"] = [statement for statement in listed if not statement.get("Condition")]
    return json.dumps(document).encode()


# As a patch: simulator/upstream/release/s3-expected-owners.patch
def check_owner(operation: Operation) -> Refusal | None:
    """Return the error for a request whose expected bucket owner differs from the actual one."""
    if operation.service != "s3":
        return None
    source = unquote(operation.headers.get(_SOURCE, ""))
    for path, header in ((operation.path, _EXPECTED), (source, _SOURCE_EXPECTED)):
        expected = operation.headers.get(header)
        if expected and not _ACCOUNT.fullmatch(expected):
            return worded(
                operation,
                "InvalidBucketOwnerAWSAccountID",
                "The value of the expected bucket owner parameter must be an AWS Account ID... "
                f"[{expected}]",
                "400 Bad Request",
            )
        if expected and _owner(path.lstrip("/").partition("/")[0], expected) != expected:
            return worded(operation, "AccessDenied", "Access Denied")
    return None


def _owner(bucket: str, unknown: str) -> str:
    from moto.s3.models import s3_backends

    _, made_by = s3_backends.bucket_accounts.get(bucket, ("", unknown))
    return FOREIGN.get(bucket) or str(made_by)


def _misses(backend: Any, bucket_name: str) -> bool:
    if not NEW_VERSIONING.share:
        return False
    since = getattr(backend.get_bucket(bucket_name), "_embedded_versioned_at", None)
    return (
        since is not None
        and time.monotonic() - since < NEW_VERSIONING.seconds
        and bool(NEW_VERSIONING.draws.random() < NEW_VERSIONING.share)
    )
