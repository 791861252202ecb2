"""Conditions of reads and writes, as S3 judges them.

AWS (recorded): S3 refuses a condition that it doesn't implement with 501, and the completion of a
multipart upload on a condition with 409 if its key was written or deleted since the upload began.
tests/records/data/s3-conditions.json
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import Any

from terradask_simulator.aws.fidelity.patching import around
from terradask_simulator.aws.fidelity.s3_refusals import refused

__all__ = ["install"]

_READING = ("if-match", "if-none-match", "if-modified-since", "if-unmodified-since")

#: Only directory buckets know these.
_OF_DIRECTORY_BUCKETS = ("x-amz-if-match-last-modified-time", "x-amz-if-match-size")


def install() -> None:
    """Replace moto's, which ignores conditions that it doesn't know."""
    from moto.s3.models import S3Backend
    from moto.s3.responses import S3Response

    @around(S3Response, "put_object")
    def put(put: Any, response: Any) -> Any:
        _check_implemented(response)
        with _naming(response):
            return put(response)

    @around(S3Response, "delete_object")
    def delete(delete: Any, response: Any) -> Any:
        for name in _OF_DIRECTORY_BUCKETS:
            if response.headers.get(name):
                raise _not_implemented(Header=name)
        with _naming(response):
            return delete(response)

    @around(S3Response, "_key_response_post")
    def post(answer: Any, response: Any, *args: Any) -> Any:
        *_, query, key_name = args
        if query.get("uploadId"):
            _check_implemented(response)
            _check_completion(response, query["uploadId"][0], key_name)
        return answer(response, *args)

    @around(S3Response, "_get_key")
    def get_key(get: Any, response: Any, *args: Any, **kwargs: Any) -> Any:
        asked, response.headers = response.headers, _without_conditions(response.headers)
        try:
            key, _ = get(response, *args, **kwargs)
        finally:
            response.headers = asked
        failed = _failed(asked, key)
        if failed and failed != "304":
            from moto.s3.exceptions import PreconditionFailed

            raise PreconditionFailed(failed)
        return key, failed == "304"

    @around(S3Response, "head_object")
    def head_object(head: Any, response: Any, *args: Any, headers: Any) -> Any:
        bucket, query, name = args
        answer = head(response, *args, headers=_without_conditions(headers))
        if answer[0] != 200:
            return answer
        version = query.get("versionId", [None])[0]
        key = response.backend.get_object(bucket, name, version_id=version)
        failed = _failed(headers, key)
        if not failed:
            return answer
        return (304, answer[1], "Not Modified") if failed == "304" else (412, answer[1], "")

    @around(S3Backend, "create_multipart_upload")
    def create(
        begin: Any, backend: Any, bucket_name: str, key_name: str, *args: Any, **kwargs: Any
    ) -> Any:
        upload = begin(backend, bucket_name, key_name, *args, **kwargs)
        upload.embedded_changes = _changes(backend, bucket_name)[key_name]
        return upload

    for changing in ("put_object", "delete_object"):
        around(S3Backend, changing)(_counted)


@contextmanager
def _naming(response: Any) -> Iterator[None]:
    """Name the key in the error that it is missing, which moto doesn't."""
    from moto.s3.exceptions import MissingKey

    try:
        yield
    except MissingKey as error:
        error.key = error.key or response.parse_key_name()
        raise


def _counted(
    change: Any, backend: Any, bucket_name: str, key_name: str, *args: Any, **kwargs: Any
) -> Any:
    answer = change(backend, bucket_name, key_name, *args, **kwargs)
    _changes(backend, bucket_name)[key_name] += 1
    return answer


def _changes(backend: Any, bucket_name: str) -> Counter[str]:
    """Return how often each key of a bucket was written or deleted."""
    bucket = backend.get_bucket(bucket_name)
    if not hasattr(bucket, "embedded_changes"):
        bucket.embedded_changes = Counter()
    return bucket.embedded_changes


def _check_implemented(response: Any) -> None:
    match, none_match = (response.headers.get(name) for name in ("If-Match", "If-None-Match"))
    if match and none_match:
        named, why = (
            "If-Match,If-None-Match",
            ("Multiple conditional request headers present in the request"),
        )
    elif match == "*" or (none_match and none_match != "*"):
        named = "If-Match" if match else "If-None-Match"
        why = f"We don't accept the provided value of {named} header for this API"
    else:
        return
    raise _not_implemented(Header=named, additionalMessage=why)


def _not_implemented(**fields: str) -> Exception:
    text = "A header you provided implies functionality that is not implemented"
    return refused(501, "NotImplemented", text, **fields)


def _check_completion(response: Any, upload_id: str, name: str) -> None:
    from moto.s3.exceptions import MissingKey, PreconditionFailed

    match, none_match = (response.headers.get(name) for name in ("If-Match", "If-None-Match"))
    bucket = response.backend.get_bucket(response.bucket_name)
    upload = bucket.multiparts.get(upload_id)
    if upload is None or not (match or none_match):
        return
    existing = response.backend.get_object(response.bucket_name, name)
    if match and existing is None:
        raise MissingKey(key=name)
    if match and _bare(match) != _bare(existing.etag):
        raise PreconditionFailed("If-Match")
    if none_match and existing is not None:
        raise PreconditionFailed("If-None-Match")
    if _changes(response.backend, response.bucket_name)[name] != upload.embedded_changes:
        raise refused(
            409,
            "ConditionalRequestConflict",
            "The conditional request cannot succeed due to a conflicting operation against this "
            "resource.",
            Condition="If-Match" if match else "If-None-Match",
            Key=name,
        )


def _without_conditions(headers: Any) -> Any:
    from werkzeug.datastructures import Headers

    return Headers([one for one in headers.items() if one[0].lower() not in _READING])


def _failed(headers: Any, key: Any) -> str | None:
    """Return the condition that an object fails, "304" for one that it wasn't changed, or None."""
    match, none_match, modified, unmodified = (headers.get(name) for name in _READING)
    changed = key.last_modified.replace(microsecond=0, tzinfo=datetime.UTC)
    if match and _bare(match) != _bare(key.etag):
        return "If-Match"
    if unmodified and not match and changed > parsedate_to_datetime(unmodified):
        return "If-Unmodified-Since"
    if none_match:
        return "304" if _bare(none_match) == _bare(key.etag) else None
    since = parsedate_to_datetime(modified) if modified else None
    if since and changed <= since <= datetime.datetime.now(datetime.UTC):
        return "304"
    return None


def _bare(etag: str) -> str:
    return etag.strip('"')
