"""Objects of a bucket whose versioning is young that answer 404 now and then, once that is switched
on.

For up to 15 minutes after a bucket's versioning is enabled for the first time, reading an object
that was created or updated since may fail with ``NoSuchKey``:
https://docs.aws.amazon.com/AmazonS3/latest/userguide/manage-versioning-examples.html. Listings and
conditions of writes are not mentioned there; here they see every object.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import Any

__all__ = ["Youth", "current_youth", "install", "set_youth"]


@dataclass(frozen=True)
class Youth:
    """How often, and for how long, objects of young buckets aren't found.

    Parameters
    ----------
    share
        Of how many readings, from 0 to 1; 0 finds all.
    seconds
        For how long after versioning was enabled for the first time.
    seed
        The same seed and readings miss the same objects.
    """

    share: float = 0.0
    seconds: float = 900.0
    seed: int = 0


class _State:
    youth = Youth()
    draws = random.Random(0)  # noqa: S311  (nothing secret)


def current_youth() -> Youth:
    """Return how often objects of young buckets aren't found now."""
    return _State.youth


def set_youth(youth: Youth) -> Youth:
    """Miss objects so from now on; return how it was before."""
    before, _State.youth = _State.youth, youth
    _State.draws = random.Random(youth.seed)  # noqa: S311  (nothing secret)
    return before


def install() -> None:
    """Let moto's answers to GetObject and HeadObject miss objects."""
    from moto.s3.exceptions import MissingKey
    from moto.s3.models import S3Backend
    from moto.s3.responses import S3Response

    enable = S3Backend.put_bucket_versioning
    get, head = S3Response.get_object, S3Response.head_object

    def put_bucket_versioning(backend: Any, bucket_name: str, status: str) -> None:
        bucket = backend.get_bucket(bucket_name)
        if not hasattr(bucket, "_embedded_versioned_at"):
            bucket._embedded_versioned_at = time.monotonic()
        enable(backend, bucket_name, status)

    def get_object(response: Any) -> Any:
        key, versions = response.parse_key_name(), response.querystring.get("versionId")
        if not versions and _misses(response.backend, response.bucket_name):
            raise MissingKey(key=key)
        return get(response)

    def head_object(response: Any, bucket_name: str, query: Any, *args: Any, **kwargs: Any) -> Any:
        if not query.get("versionId") and _misses(response.backend, bucket_name):
            return 404, {}, ""
        return head(response, bucket_name, query, *args, **kwargs)

    S3Backend.put_bucket_versioning = put_bucket_versioning
    S3Response.get_object = get_object
    S3Response.head_object = head_object


def _misses(backend: Any, bucket_name: str) -> bool:
    youth = _State.youth
    if not youth.share:
        return False
    since = getattr(backend.get_bucket(bucket_name), "_embedded_versioned_at", None)
    return (
        since is not None
        and time.monotonic() - since < youth.seconds
        and _State.draws.random() < youth.share
    )
