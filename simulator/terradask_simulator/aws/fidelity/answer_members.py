"""Answers have the members that botocore's models have: the check of shapes finds others.

- A member without a value is left out of JSON. moto writes ``null``. Of the two names by which a
  secret's versions are listed, moto uses both.
- The answer about request payment names the payer. moto lists the bucket's objects instead.
- Of a checksum only the value is returned, not the header in which an SDK shows how it was
  computed.
"""

from __future__ import annotations

import json
from typing import Any

from terradask_simulator.aws.fidelity.patching import around

__all__ = ["install"]

#: Calls -> what moto's answers have too much.
_TOO_MUCH = {"DescribeSecret": "SecretVersionsToStages", "ListSecrets": "VersionIdsToStages"}

_PAYER = (
    '<RequestPaymentConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
    "<Payer>BucketOwner</Payer></RequestPaymentConfiguration>"
)


def install() -> None:
    """Wrap moto's answers."""
    from moto.core.responses import BaseResponse
    from moto.s3.models import FakeKey
    from moto.s3.responses import S3Response

    @around(BaseResponse, "call_action")
    def call_action(call: Any, response: Any) -> Any:
        status, headers, body = call(response)
        too_much = _TOO_MUCH.get(response._get_action(), "")
        if isinstance(body, str) and body.startswith("{") and ("null" in body or too_much):
            body = json.dumps(_with_values(json.loads(body), too_much))
        return status, headers, body

    @around(S3Response, "_bucket_response_get")
    def bucket_response_get(get: Any, response: Any, bucket: str, query: dict[str, Any]) -> Any:
        found = get(response, bucket, query)
        return (200, {}, _PAYER) if "requestPayment" in query else found

    described = FakeKey.response_dict

    def response_dict(key: Any) -> dict[str, Any]:
        headers = dict(described.fget(key))
        headers.pop("x-amz-sdk-checksum-algorithm", None)
        return headers

    FakeKey.response_dict = property(response_dict)


def _with_values(value: Any, too_much: str) -> Any:
    """Return a value of JSON without members that have none, or one name."""
    if isinstance(value, dict):
        return {
            name: _with_values(inner, too_much)
            for name, inner in value.items()
            if inner is not None and name != too_much
        }
    return [_with_values(inner, too_much) for inner in value] if isinstance(value, list) else value
