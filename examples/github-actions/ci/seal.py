"""Encrypt standard input with the key of plans (AES-256-GCM), or decrypt it. What was changed, or
encrypted with another key, is refused as a whole: nothing of it is written.
"""

import base64
import binascii
import os
import sys

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
NONCE_BYTES = 12
TAG_BYTES = 16
#: Nothing else that is encrypted with the same key is taken for a plan.
PURPOSE = b"terradask plan"


def cipher() -> AESGCM:
    """Return the cipher with the key in PLAN_KEY."""
    try:
        key = base64.b64decode(os.environ.get("PLAN_KEY", ""), validate=True)
    except binascii.Error:
        key = b""
    if len(key) != KEY_BYTES:
        sys.exit(f"PLAN_KEY is not {KEY_BYTES} bytes in base64: openssl rand -base64 {KEY_BYTES}")
    return AESGCM(key)


def seal(content: bytes) -> bytes:
    """Return the content, encrypted."""
    nonce = os.urandom(NONCE_BYTES)
    return nonce + cipher().encrypt(nonce, content, PURPOSE)


def unseal(sealed: bytes) -> bytes:
    """Return the content of what `seal` made with the same key."""
    nonce, content = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
    try:
        if len(content) < TAG_BYTES:
            raise InvalidTag
        return cipher().decrypt(nonce, content, PURPOSE)
    except InvalidTag:
        sys.exit("refused: the plan was changed, or encrypted with another key. Plan again.")


if __name__ == "__main__":
    (verb,) = sys.argv[1:]
    sys.stdout.buffer.write({"seal": seal, "open": unseal}[verb](sys.stdin.buffer.read()))
