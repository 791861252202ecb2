"""The changes in a plan's file, as Terraform writes them, as far as they say where the state is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgpack

BACKEND, STATE_STORE = 13, 29


def changes(
    values: Mapping[str, Any], *, workspace: str = "default", number: int = BACKEND
) -> bytes:
    """Return a plan whose state is a local file with these values."""
    config = _field(1, msgpack.packb(dict(values)))
    return _field(
        number, _field(1, b"local") + _field(2, config) + _field(3, workspace.encode())
    ) + _field(14, b"1.11.4")


def _field(number: int, content: bytes) -> bytes:
    assert len(content) < 128
    tag = number << 3 | 2
    head = bytes([tag]) if tag < 128 else bytes([tag & 127 | 128, tag >> 7])
    return head + bytes([len(content)]) + content
