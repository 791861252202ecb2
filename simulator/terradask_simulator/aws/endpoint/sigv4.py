"""AWS Signature Version 4: what a request says of its signature, and the one that it should have,
recomputed with botocore's own signer.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from botocore.auth import UNSIGNED_PAYLOAD, S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from terradask_simulator.aws.iam.operation import headers_of

__all__ = ["Signature", "expected_signature", "read_signature"]

_ALGORITHM = "AWS4-HMAC-SHA256"
_SCOPE_NAMES = ("access_key_id", "scope_date", "region", "service")
_SCOPE = "".join(rf"(?P<{name}>[^/,\s]+)/" for name in _SCOPE_NAMES) + "aws4_request"
# Exactly so, as all SDKs write it: whatever else reads the header has to read the same caller.
_HEADER = re.compile(
    rf"{_ALGORITHM} Credential={_SCOPE}, ?SignedHeaders=(?P<signed_headers>[a-z0-9;._-]+), ?"
    r"Signature=(?P<value>[0-9a-f]+)"
)


@dataclass(frozen=True)
class Signature:
    """What a request says of its signature; ``valid_seconds`` of a presigned URL alone."""

    access_key_id: str
    scope_date: str
    region: str
    service: str
    signed_headers: tuple[str, ...]
    value: str
    timestamp: str
    token: str
    valid_seconds: int | None = None


def read_signature(environ: Mapping[str, Any]) -> Signature | None:
    """Return what a request says of its signature; None where it has none, two, or none that can be
    read.
    """
    query = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
    header = environ.get("HTTP_AUTHORIZATION")
    presigned = "X-Amz-Signature" in query
    try:
        if header is not None:
            return None if presigned else _from_header(header, headers_of(environ))
        return _from_query({name: values for name, (values, *_) in query.items()})
    except (KeyError, ValueError):
        return None


def _from_header(header: str, headers: Mapping[str, str]) -> Signature:
    found = _HEADER.fullmatch(header)
    if found is None:
        raise ValueError("no header of Signature Version 4")
    return Signature(
        **_scope(found),
        signed_headers=tuple(found["signed_headers"].split(";")),
        value=found["value"],
        timestamp=headers["x-amz-date"],
        token=headers.get("x-amz-security-token", ""),
    )


def _from_query(query: Mapping[str, str]) -> Signature:
    if query["X-Amz-Algorithm"] != _ALGORITHM:
        raise ValueError(query["X-Amz-Algorithm"])
    found = re.fullmatch(_SCOPE, query["X-Amz-Credential"])
    if found is None:
        raise ValueError("no scope of a credential")
    return Signature(
        **_scope(found),
        signed_headers=tuple(query["X-Amz-SignedHeaders"].split(";")),
        value=query["X-Amz-Signature"],
        timestamp=query["X-Amz-Date"],
        token=query.get("X-Amz-Security-Token", ""),
        valid_seconds=int(query["X-Amz-Expires"]),
    )


def _scope(found: re.Match[str]) -> dict[str, Any]:
    return {name: found[name] for name in _SCOPE_NAMES}


def expected_signature(
    signature: Signature, environ: Mapping[str, Any], body: bytes, secret: str
) -> str:
    """Return the signature that a request should have, by the secret of its access key."""
    headers = headers_of(environ)
    signed = {
        # WSGI has bytes as Latin-1.
        name: headers[name].encode("latin-1").decode("utf-8", "replace")
        for name in signature.signed_headers
        if name in headers
    }
    path, _, query = environ["REQUEST_URI"].partition("?")
    kept = [part for part in query.split("&") if not part.startswith("X-Amz-Signature=")]
    request = AWSRequest(
        method=environ["REQUEST_METHOD"],
        url=f"http://{environ['HTTP_HOST']}{path}?{'&'.join(kept)}",
        headers=signed,
    )
    request.context["timestamp"] = signature.timestamp
    kind = _ReceivedByS3 if signature.service == "s3" else _Received
    signer = kind(signature, secret, body)
    canonical = signer.canonical_request(request)
    value: str = signer.signature(signer.string_to_sign(request, canonical), request)
    return value


class _Received(SigV4Auth):
    """Signs what was received: the headers that the caller signed, and no others."""

    def __init__(self, signature: Signature, secret: str, body: bytes) -> None:
        credentials = Credentials(signature.access_key_id, secret)
        super().__init__(credentials, signature.service, signature.region)
        self.received, self.body = signature, body

    def headers_to_sign(self, request: Any) -> Any:
        return request.headers

    def payload(self, request: Any) -> str:
        return hashlib.sha256(self.body).hexdigest()


class _ReceivedByS3(_Received, S3SigV4Auth):
    """The same for S3, whose paths are signed as they are and whose presigned URLs don't cover the
    body.
    """

    def payload(self, request: Any) -> str:
        presigned = self.received.valid_seconds is not None
        return UNSIGNED_PAYLOAD if presigned else super().payload(request)
