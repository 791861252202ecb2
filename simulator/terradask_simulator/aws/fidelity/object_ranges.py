"""A part of a large object costs what the part costs.

moto reads all of an object for each range of it: an archive that hosts fetch in a hundred parts
would be read a hundred times.
"""

from __future__ import annotations

from contextvars import ContextVar
from functools import wraps
from typing import Any

__all__ = ["install"]

#: Whether the request that is being answered asks for a range.
_RANGED: ContextVar[bool] = ContextVar("ranged", default=False)


class _Content:
    """An object's content, of which slices are read alone."""

    def __init__(self, key: Any) -> None:
        self._key = key

    def __len__(self) -> int:
        size: int = self._key.contentsize
        return size

    def __getitem__(self, part: slice) -> bytes:
        begin, end, _ = part.indices(len(self))
        with self._key.lock:
            self._key._value_buffer.seek(begin)
            found: bytes = self._key._value_buffer.read(end - begin)
        return found


def install() -> None:
    """Replace how moto reads objects for requests with a range."""
    from moto.s3.models import FakeKey
    from moto.s3.responses import S3Response

    whole = FakeKey.value
    answer, part_of = S3Response.key_response, S3Response._handle_range_header

    @wraps(answer)
    def key_response(self: Any, request: Any, *args: Any) -> Any:
        token = _RANGED.set(request.method == "GET" and bool(request.headers.get("range")))
        try:
            return answer(self, request, *args)
        finally:
            _RANGED.reset(token)

    @wraps(part_of)
    def handle_range_header(self: Any, request: Any, headers: Any, content: Any) -> Any:
        status, headers, found = part_of(self, request, headers, content)
        return status, headers, found[:] if isinstance(found, _Content) else found

    def value(self: Any) -> Any:
        return _Content(self) if _RANGED.get() else whole.fget(self)

    FakeKey.value = property(value, whole.fset)
    S3Response.key_response = key_response
    S3Response._handle_range_header = handle_range_header
