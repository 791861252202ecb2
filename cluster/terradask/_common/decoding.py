"""Decode nested texts: base64, gzip and MIME, layer by layer."""

from __future__ import annotations

import base64
import binascii
import email
import re
import zlib
from collections.abc import Iterator

_GZIP = b"\x1f\x8b"
#: Base64 groups, wrapped as in MIME and YAML; shorter texts can't contain a secret.
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4}\s*){4,}(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
#: A private key in DER: a sequence that begins with its version (RFC 5208, RFC 8017, RFC 5915).
_DER_KEY = re.compile(
    rb"\x30(?:\x82..|\x81.|[\x10-\x7f])\x02\x01[\x00\x01][\x02\x04\x30]", re.DOTALL
)
#: The start of a private key in PEM: one search finds both.
_PEM = "-----BEGIN " + "PRIVATE KEY-----"
_PRINTABLE = b"\t\n\r" + bytes(range(32, 127))
_LEAST_LETTERS = 16
_MAX_LAYERS = 5
_MAX_BYTES = 4_000_000


class Undecodable(ValueError):
    """Bytes with a compression signature that can't be decompressed."""


def from_base64(text: str) -> bytes | None:
    """Return the decoded base64, or None if it isn't base64."""
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return None


def layers(raw: bytes, depth: int = _MAX_LAYERS) -> Iterator[str]:
    """Yield a text and every text inside it. Raises `Undecodable`."""
    raw = inflated(raw)
    text = raw.decode("utf-8", errors="replace")
    yield f"{_PEM}\n{text}" if _DER_KEY.match(raw) else text
    if depth > 0:
        for part in _parts(raw, text):
            try:
                yield from layers(part, depth - 1)
            except Undecodable:
                continue


def inflated(raw: bytes) -> bytes:
    """Return bytes with gzip removed. Raises `Undecodable`."""
    if not raw.startswith(_GZIP):
        return raw
    try:
        # With an upper bound: a few bytes can expand to gigabytes.
        return zlib.decompressobj(wbits=31).decompress(raw, _MAX_BYTES)
    except zlib.error as error:
        raise Undecodable(str(error)) from error


def _parts(raw: bytes, text: str) -> Iterator[bytes]:
    if re.match(
        r"(?:[\w-]+:.*\n(?:[ \t].*\n)*)*?(?:content-type|mime-version):", text, re.IGNORECASE
    ):
        for part in email.message_from_bytes(raw).walk():
            payload = part.get_payload(decode=True)
            if not part.is_multipart() and isinstance(payload, bytes) and payload != raw:
                yield payload
    for run in _BASE64.findall(text):
        for candidate in _candidates(run):
            decoded = from_base64(candidate)
            if decoded is not None and _readable(decoded):
                yield decoded


def _candidates(run: str) -> list[str]:
    """Return a run of letters, its text after the first word (such as ``echo``), and long words."""
    words = run.split()
    long = [word for word in words if len(word) >= _LEAST_LETTERS]
    return list(dict.fromkeys([run, "".join(words[1:]), *long]))


def _readable(decoded: bytes) -> bool:
    """Return whether decoded bytes are text."""
    if decoded.startswith(_GZIP) or _DER_KEY.match(decoded):
        return True
    return len(decoded.translate(None, _PRINTABLE)) <= 0.2 * len(decoded)
