"""Check requests' signatures (AWS Signature Version 4) as AWS does. The expected signature is
recomputed with botocore's own signer.

AWS (documented): A request to AWS is signed by Signature Version 4.
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from email.utils import format_datetime
from typing import Any
from urllib.parse import parse_qs, quote, unquote

from botocore.auth import UNSIGNED_PAYLOAD, S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from terradask_simulator.aws.access_keys import AccessKey, KeyRing
from terradask_simulator.aws.endpoint import CONTROL_SERVICE
from terradask_simulator.aws.fidelity.clock import ahead_seconds
from terradask_simulator.aws.fidelity.clock import now as aws_now
from terradask_simulator.aws.iam.operation import Operation, headers_of
from terradask_simulator.aws.iam.refusals import Refusal, bad_signature, unknown_key, worded

__all__ = ["Signatures"]

_ALGORITHM = "AWS4-HMAC-SHA256"
_SCOPE_NAMES = ("access_key_id", "scope_date", "region", "service")
_SCOPE = "".join(rf"(?P<{name}>[^/,\s]+)/" for name in _SCOPE_NAMES) + "aws4_request"
# Exactly the SDKs' format: every reader of the header must get the same caller.
_HEADER = re.compile(
    rf"{_ALGORITHM} Credential={_SCOPE}, ?SignedHeaders=(?P<signed_headers>[a-z0-9;._-]+), ?"
    r"Signature=(?P<value>[0-9a-f]+)"
)

#: AWS (clock-skew)
_TAKEN = datetime.timedelta(minutes=15)
_STAMP = "%Y%m%dT%H%M%SZ"

#: AWS (documented): S3 accepts these values in place of the body's SHA-256.
#: https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
_UNSIGNED_BODIES = {"UNSIGNED-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"}


class Signatures:
    """Refuse requests with invalid signatures; two switches refuse more."""

    def __init__(self, keys: KeyRing) -> None:
        self._keys = keys
        self.expired: set[str] = set()
        self.ahead_seconds = 0.0

    def is_owner(self, operation: Operation) -> bool:
        """Return whether an admitted call is signed with the owner's key."""
        return operation.access_key == self._keys.owner.access_key_id

    def date_header(self) -> tuple[tuple[str, str], ...]:
        """Return the header with AWS's time for a response; empty without a difference."""
        if not self.ahead_seconds and not ahead_seconds():
            return ()
        now = aws_now() + datetime.timedelta(seconds=self.ahead_seconds)
        return (("Date", format_datetime(now, usegmt=True)),)

    def check(
        self, operation: Operation, environ: Mapping[str, Any], body: bytes
    ) -> Refusal | None:
        """Return the error for a call with an invalid signature, or None."""
        signature = _read_signature(environ)
        key = None if signature is None else self._keys.find(signature.access_key_id)
        if signature is None or key is None or not _same(signature.token, key.token):
            return unknown_key(operation)
        # Switches don't affect requests that turn them off.
        switched = signature.service != CONTROL_SERVICE
        now = datetime.datetime.now(datetime.UTC) + datetime.timedelta(
            seconds=self.ahead_seconds if switched else 0
        )
        refusal = _check_time(operation, signature, now)
        if refusal is None:
            refusal = _check_value(operation, signature, environ, body, key)
        over = key.expires is not None and key.expires < now
        if refusal is None and (over or (switched and key.access_key_id in self.expired)):
            refusal = _expired(operation)
        return refusal


def _same(given: str, right: str) -> bool:
    return hmac.compare_digest(given.encode(), right.encode())


def _check_value(
    operation: Operation,
    signature: _Signature,
    environ: Mapping[str, Any],
    body: bytes,
    key: AccessKey,
) -> Refusal | None:
    headers = operation.headers
    must = {"host", *(name for name in headers if name.startswith("x-amz-"))}
    right = _expected_signature(signature, environ, body, key.secret)
    if not must <= set(signature.signed_headers) or not _same(signature.value, right):
        return bad_signature(operation)
    return _check_body(operation, signature, headers.get("x-amz-content-sha256", ""), body)


def _check_body(
    operation: Operation, signature: _Signature, declared: str, body: bytes
) -> Refusal | None:
    """Return the error for a body that differs from the signed one; without the header, the
    signature itself covers the body.
    """
    if not declared or declared == hashlib.sha256(body).hexdigest():
        return None
    if signature.service != "s3":
        return bad_signature(operation)
    if declared in _UNSIGNED_BODIES:
        return None
    if declared.startswith("STREAMING-"):
        return worded(
            operation,
            "NotImplemented",
            "A header you provided implies functionality that is not implemented",
            "501 Not Implemented",
        )
    return worded(
        operation,
        "XAmzContentSHA256Mismatch",
        "The provided 'x-amz-content-sha256' header does not match what was computed.",
        "400 Bad Request",
    )


def _check_time(
    operation: Operation, signature: _Signature, now: datetime.datetime
) -> Refusal | None:
    try:
        signed_at = datetime.datetime.strptime(signature.timestamp, _STAMP).replace(
            tzinfo=datetime.UTC
        )
    except ValueError:
        return bad_signature(operation)
    if signature.scope_date != signature.timestamp[:8]:
        return bad_signature(operation)
    valid = (
        _TAKEN
        if signature.valid_seconds is None
        else datetime.timedelta(seconds=signature.valid_seconds)
    )
    if signed_at - _TAKEN <= now <= signed_at + valid:
        return None
    refusal = _skewed(operation, signature, signed_at, now)
    return replace(refusal, headers=(*refusal.headers, ("Date", format_datetime(now, usegmt=True))))


def _expired(operation: Operation) -> Refusal:
    # AWS (documented): S3 answers RequestTimeTooSkewed to a signature of another time.
    # https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
    if operation.service == "s3":
        return worded(
            operation, "ExpiredToken", "The provided token has expired.", "400 Bad Request"
        )
    if operation.protocol == "ec2":
        return worded(operation, "RequestExpired", "Request has expired.", "400 Bad Request")
    code = "ExpiredTokenException" if operation.protocol == "json" else "ExpiredToken"
    return worded(operation, code, "The security token included in the request is expired")


def _skewed(
    operation: Operation,
    signature: _Signature,
    signed_at: datetime.datetime,
    now: datetime.datetime,
) -> Refusal:
    if operation.service == "s3":
        if signature.valid_seconds is not None and signed_at < now:
            return worded(operation, "AccessDenied", "Request has expired")
        return worded(
            operation,
            "RequestTimeTooSkewed",
            "The difference between the request time and the current time is too large.",
        )
    if operation.protocol == "ec2":
        return worded(operation, "RequestExpired", "Request has expired.", "400 Bad Request")
    # Source of the message: https://github.com/EngineerBetter/control-tower/issues/51
    bound = now - _TAKEN if signed_at < now else now + _TAKEN
    sign, text = (
        ("-", "expired: {} is now earlier than")
        if signed_at < now
        else ("+", "not yet current: {} is still later than")
    )
    when = (
        f"{text.format(f'{signed_at:{_STAMP}}')} {bound:{_STAMP}} ({now:{_STAMP}} {sign} 15 min.)"
    )
    return bad_signature(operation, f"Signature {when}")


@dataclass(frozen=True)
class _Signature:
    """The signature fields of a request; ``valid_seconds`` only of a presigned URL."""

    access_key_id: str
    scope_date: str
    region: str
    service: str
    signed_headers: tuple[str, ...]
    value: str
    timestamp: str
    token: str
    valid_seconds: int | None = None


def _read_signature(environ: Mapping[str, Any]) -> _Signature | None:
    """Return the signature fields of a request; None if it has no readable signature, or two."""
    query = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
    header = environ.get("HTTP_AUTHORIZATION")
    presigned = "X-Amz-Signature" in query
    try:
        if header is not None:
            return None if presigned else _from_header(header, headers_of(environ))
        return _from_query({name: values for name, (values, *_) in query.items()})
    except (KeyError, ValueError):
        return None


def _from_header(header: str, headers: Mapping[str, str]) -> _Signature:
    found = _HEADER.fullmatch(header)
    if found is None:
        raise ValueError("no header of Signature Version 4")
    return _Signature(
        **_scope(found),
        signed_headers=tuple(found["signed_headers"].split(";")),
        value=found["value"],
        timestamp=headers["x-amz-date"],
        token=headers.get("x-amz-security-token", ""),
    )


def _from_query(query: Mapping[str, str]) -> _Signature:
    if query["X-Amz-Algorithm"] != _ALGORITHM:
        raise ValueError(query["X-Amz-Algorithm"])
    found = re.fullmatch(_SCOPE, query["X-Amz-Credential"])
    if found is None:
        raise ValueError("no scope of a credential")
    return _Signature(
        **_scope(found),
        signed_headers=tuple(query["X-Amz-SignedHeaders"].split(";")),
        value=query["X-Amz-Signature"],
        timestamp=query["X-Amz-Date"],
        token=query.get("X-Amz-Security-Token", ""),
        valid_seconds=int(query["X-Amz-Expires"]),
    )


def _scope(found: re.Match[str]) -> dict[str, Any]:
    return {name: found[name] for name in _SCOPE_NAMES}


def _expected_signature(
    signature: _Signature, environ: Mapping[str, Any], body: bytes, secret: str
) -> str:
    """Return the expected signature of a request, from its access key's secret."""
    headers = headers_of(environ)
    signed = {
        # WSGI decodes bytes as Latin-1.
        name: headers[name].encode("latin-1").decode("utf-8", "replace")
        for name in signature.signed_headers
        if name in headers
    }
    path, _, query = environ["REQUEST_URI"].partition("?")
    kept = [
        _encoded(part)
        for part in query.split("&")
        if part and not part.startswith("X-Amz-Signature=")
    ]
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


def _encoded(parameter: str) -> str:
    """Return a parameter of a query as it is signed: callers may send some characters as they are,
    such as s3fs the slash of ``delimiter=/``.
    """
    name, _, value = parameter.partition("=")
    return "=".join(quote(unquote(part), safe="-_.~") for part in (name, value))


class _Received(SigV4Auth):
    """Signs a received request: only the headers that the caller signed."""

    def __init__(self, signature: _Signature, secret: str, body: bytes) -> None:
        credentials = Credentials(signature.access_key_id, secret)
        super().__init__(credentials, signature.service, signature.region)
        self.received, self.body = signature, body

    def headers_to_sign(self, request: Any) -> Any:
        return request.headers

    def payload(self, request: Any) -> str:
        return hashlib.sha256(self.body).hexdigest()


class _ReceivedByS3(_Received, S3SigV4Auth):
    """Signs a received S3 request: paths aren't normalized, and presigned URLs don't cover the
    body.
    """

    def payload(self, request: Any) -> str:
        presigned = self.received.valid_seconds is not None
        return UNSIGNED_PAYLOAD if presigned else super().payload(request)
