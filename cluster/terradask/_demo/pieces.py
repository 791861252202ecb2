"""Results that exist once: random, so that one computed again would differ."""

from __future__ import annotations

import hashlib
import os

SIZE_BYTES = 256 * 1024


def piece(_number: int) -> bytes:
    """Make a piece that can't be made again."""
    return os.urandom(SIZE_BYTES)


def fingerprint(data: bytes) -> str:
    """Return what distinguishes a piece from every other one."""
    return hashlib.sha256(data).hexdigest()
