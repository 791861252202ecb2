"""Checksums of objects: their types, and what S3 refuses.

AWS (recorded): Where S3 returns a checksum, it returns its type; a checksum that isn't the
content's is refused. tests/records/data/s3-checksums.json
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Any

from terradask_simulator.aws.fidelity.patching import around
from terradask_simulator.aws.fidelity.s3_refusals import refused

__all__ = ["install"]

_CHECKSUM, _TYPE, _MODE = "x-amz-checksum-", "x-amz-checksum-type", "x-amz-checksum-mode"
#: moto computes the others only with packages that nothing here needs.
_BYTES = {"CRC32": 4, "SHA1": 20, "SHA256": 32}
_KNOWN = (*_BYTES, "CRC32C", "CRC64NVME")


def install() -> None:
    """Replace moto's, which stores what it is given."""
    from moto.s3.models import S3Backend
    from moto.s3.responses import S3Response

    @around(S3Backend, "put_object")
    def keep(put: Any, backend: Any, *args: Any, **kwargs: Any) -> Any:
        key = put(backend, *args, **kwargs)
        if key.checksum_value:
            key.checksum_type = "FULL_OBJECT"
        return key

    @around(S3Response, "put_object")
    def put_object(put: Any, response: Any) -> Any:
        _check(response)
        status, headers, body = put(response)
        if any(name.startswith(_CHECKSUM) for name in headers):
            headers[_TYPE] = "FULL_OBJECT"
        return status, headers, body

    @around(S3Response, "upload_part")
    def upload_part(put: Any, response: Any) -> Any:
        _check(response)
        return put(response)

    @around(S3Response, "_get_checksum")
    def get_checksum(read: Any, response: Any, headers: dict[str, Any]) -> Any:
        given = _given(response.headers)
        if not given or response.headers.get("x-amz-sdk-checksum-algorithm"):
            return read(response, headers)
        (algorithm, value), *_ = given.items()
        headers[f"{_CHECKSUM}{algorithm.lower()}"] = value
        return algorithm, value

    @around(S3Response, "get_object")
    def get_object(get: Any, response: Any) -> Any:
        return _typed(response.headers, *get(_with_mode(response)))

    @around(S3Response, "head_object")
    def head_object(head: Any, response: Any, *args: Any, headers: Any) -> Any:
        return _typed(headers, *head(response, *args, headers=headers))


def _with_mode(response: Any) -> Any:
    """Return a request with the mode in capitals, as moto wants it."""
    from werkzeug.datastructures import Headers

    mode = response.headers.get(_MODE)
    if mode and not mode.isupper():
        response.headers = Headers(list(response.headers.items()))
        response.headers[_MODE] = mode.upper()
    return response


def _typed(asked: Any, status: int, headers: dict[str, Any], body: Any) -> Any:
    whole = status == 200 and not asked.get("range")
    if whole and (asked.get(_MODE) or "").upper() == "ENABLED":
        has_checksum = any(name.startswith(_CHECKSUM) for name in headers)
        # An object of parts has one, which isn't computed here.
        if has_checksum or "-" in headers.get("ETag", ""):
            headers.setdefault(_TYPE, "FULL_OBJECT")
    return status, headers, body


def _given(headers: Any) -> dict[str, str]:
    found = {name: headers.get(f"{_CHECKSUM}{name.lower()}") for name in _KNOWN}
    return {name: value for name, value in found.items() if value}


def _check(response: Any) -> None:
    body = response.body or b""
    _check_md5(response.headers.get("Content-MD5"), body)
    given = _given(response.headers)
    if len(given) > 1:
        raise refused(
            400,
            "InvalidRequest",
            "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.",
        )
    for name, value in given.items():
        if name not in _BYTES:
            continue
        if len(_decoded(value)) != _BYTES[name]:
            text = f"Value for {_CHECKSUM}{name.lower()} header is invalid."
            raise refused(400, "InvalidRequest", text)
        if _decoded(value) != _computed(name, body):
            text = f"The {name} you specified did not match the calculated checksum."
            raise refused(400, "BadDigest", text)


def _check_md5(given: str | None, body: bytes) -> None:
    if given is None:
        return
    if len(_decoded(given)) != 16:
        text = "The Content-MD5 you specified was invalid."
        raise refused(400, "InvalidDigest", text, **{"Content-MD5": given})
    digest = hashlib.md5(body, usedforsecurity=False).digest()
    if _decoded(given) != digest:
        raise refused(
            400,
            "BadDigest",
            "The Content-MD5 you specified did not match what we received.",
            ExpectedDigest=given,
            CalculatedDigest=base64.b64encode(digest).decode(),
        )


def _decoded(value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error:
        return b""


def _computed(name: str, body: bytes) -> bytes:
    if name == "CRC32":
        return binascii.crc32(body).to_bytes(4, "big")
    return hashlib.new(name.lower(), body, usedforsecurity=False).digest()
