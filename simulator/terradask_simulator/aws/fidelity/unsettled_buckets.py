"""Buckets that S3 doesn't know everywhere in their first seconds, once that is switched on.

Calls about the configuration of a bucket that was just made are answered now and then with
``OperationAborted`` (https://github.com/DataBiosphere/toil/issues/1093,
https://github.com/ansible/ansible/pull/67811) or ``NoSuchBucket``, for which the Terraform provider
repeats each of them (https://github.com/hashicorp/terraform-provider-aws/issues/33478).
"""

from __future__ import annotations

import datetime
import random
from dataclasses import dataclass
from typing import Any

__all__ = ["Settling", "current_settling", "install", "set_settling"]


@dataclass(frozen=True)
class Settling:
    """How often, and for how long, calls about young buckets fail.

    Parameters
    ----------
    share
        Of how many calls, from 0 to 1; 0 answers all.
    seconds
        For how long after a bucket was made.
    seed
        The same seed and calls fail the same ones, in the same way.
    """

    share: float = 0.0
    seconds: float = 60.0
    seed: int = 0


class _State:
    settling = Settling()
    draws = random.Random(0)  # noqa: S311  (nothing secret)


def current_settling() -> Settling:
    """Return how often calls about young buckets fail now."""
    return _State.settling


def set_settling(settling: Settling) -> Settling:
    """Fail calls so from now on; return how it was before."""
    before, _State.settling = _State.settling, settling
    _State.draws = random.Random(settling.seed)  # noqa: S311  (nothing secret)
    return before


def install() -> None:
    """Let moto's answers about a bucket's configuration fail."""
    from moto.s3.responses import S3Response

    put, get = S3Response._bucket_response_put, S3Response._bucket_response_get

    def bucket_response_put(response: Any, request: Any, bucket_name: str, query: Any) -> Any:
        failure = _failure(response, bucket_name) if query else None
        return failure or put(response, request, bucket_name, query)

    def bucket_response_get(response: Any, bucket_name: str, query: Any) -> Any:
        failure = _failure(response, bucket_name) if set(query) & _CONFIGURATION else None
        return failure or get(response, bucket_name, query)

    S3Response._bucket_response_put = bucket_response_put
    S3Response._bucket_response_get = bucket_response_get


#: Not the listings of objects, which are answered in the same place.
_CONFIGURATION = frozenset(
    ("encryption", "lifecycle", "ownershipControls", "policy", "publicAccessBlock", "tagging")
) | {"versioning"}


#: moto has no error with the status of the second one.
_FAILURES: tuple[tuple[int, dict[str, str], str], ...] = tuple(
    (status, {}, f"<Error><Code>{code}</Code><Message>{message}</Message></Error>")
    for status, code, message in (
        (404, "NoSuchBucket", "The specified bucket does not exist"),
        (
            409,
            "OperationAborted",
            "A conflicting conditional operation is currently in progress against this resource. "
            "Please try again.",
        ),
    )
)


def _failure(response: Any, bucket_name: str) -> Any:
    settling = _State.settling
    bucket = response.backend.buckets.get(bucket_name) if settling.share else None
    if bucket is None:
        return None
    age = datetime.datetime.now(datetime.UTC) - bucket.creation_date
    fails = age.total_seconds() < settling.seconds and _State.draws.random() < settling.share
    return _State.draws.choice(_FAILURES) if fails else None
