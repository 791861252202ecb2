"""The end of a task's output, up to a number of bytes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

#: A piece: the stream's number (1: output, 2: errors), and its bytes.
Piece = tuple[int, bytes]

#: Longest piece, so that little more than necessary is dropped.
_PIECE_BYTES = 16 * 2**10


class OutputTail:
    """The last bytes of an output; `end` counts all bytes ever written."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._pieces: deque[Piece] = deque()
        self._start = 0
        self.end = 0

    def write(self, stream: int, content: bytes) -> None:
        """Add bytes, and drop the oldest beyond the limit."""
        for start in range(0, len(content), _PIECE_BYTES):
            piece = content[start : start + _PIECE_BYTES]
            self._pieces.append((stream, piece))
            self.end += len(piece)
        while self.end - self._start > self._most_bytes:
            self._start += len(self._pieces.popleft()[1])

    def take(self, at: int, pieces: Iterable[Piece]) -> None:
        """Add pieces from byte `at` on: known bytes are skipped, missing ones are counted."""
        if at > self.end:
            self._pieces.clear()
            self._start = self.end = at
        for stream, content in pieces:
            self.write(stream, content[max(self.end - at, 0) :])
            at += len(content)

    def read(self, since: int = 0, most_bytes: int | None = None) -> tuple[list[Piece], int, int]:
        """Return the pieces from a byte on, the number of lost bytes before them, and the byte
        behind the last one.
        """
        missed = max(self._start - since, 0)
        since = max(since, self._start)
        found: list[Piece] = []
        at, taken = self._start, 0
        for stream, piece in self._pieces:
            rest = piece[max(since - at, 0) :]
            at += len(piece)
            if not rest:
                continue
            if most_bytes is not None and found and taken + len(rest) > most_bytes:
                break
            found.append((stream, rest))
            taken += len(rest)
        return found, missed, since + taken
