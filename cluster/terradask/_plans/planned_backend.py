"""Where a plan's file puts the state: an apply asks neither the folder nor the configuration.

Terraform's JSON of a plan doesn't have it, so it is read as Terraform writes it
(https://github.com/hashicorp/terraform/blob/main/internal/plans/planproto/planfile.proto).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

#: Of the plan. A state store is another kind of backend, which no stack has.
_BACKEND, _STATE_STORE = 13, 29
_PLACES = frozenset({_BACKEND, _STATE_STORE})
#: Of the backend.
_TYPE, _CONFIG, _WORKSPACE = 1, 2, 3
#: Of a value.
_MSGPACK = 1


def planned_backend(changes: bytes) -> dict[str, Any]:
    """Return the backend of a plan as a configuration has it: its type, and its values but for
    those that aren't set.

    Raises `ValueError` if the plan can't be read, or hasn't exactly one, or has another workspace
    of Terraform's.
    """
    import msgpack

    places = [each for each in _fields(changes) if each[0] in _PLACES]
    if [number for number, _ in places] != [_BACKEND]:
        raise ValueError("it has not exactly one backend")
    fields = list(_fields(places[0][1]))
    backend = dict(fields)
    if len(fields) != len(backend) or backend.get(_WORKSPACE) != b"default":
        raise ValueError("its backend is of another workspace")
    try:
        values = msgpack.unpackb(dict(_fields(backend[_CONFIG]))[_MSGPACK])
        known = {name: value for name, value in values.items() if value is not None}
        return {backend[_TYPE].decode(): known}
    except (KeyError, TypeError, AttributeError, msgpack.UnpackException) as error:
        raise ValueError(f"its backend can't be read: {error!r}") from error


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the number and content of each field of a message that has bytes."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        match tag & 7:
            case 0:  # a number
                _, at = _varint(message, at)
            case 1:
                at += 8
            case 5:
                at += 4
            case 2:  # bytes, a text or another message
                size, at = _varint(message, at)
                if at + size > len(message):
                    raise ValueError("a field is longer than its message")
                yield tag >> 3, message[at : at + size]
                at += size
            case kind:
                raise ValueError(f"a field is of kind {kind}")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Return a number and where the next one begins."""
    value = shift = 0
    while True:
        if at >= len(message) or shift > 63:
            raise ValueError("a number has no end")
        value |= (message[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if message[at - 1] < 0x80:
            return value, at
