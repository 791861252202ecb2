"""``JobOutput``: the output of a job's task, read from documents and written to a terminal."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from terradask_host.documents import plain_text
from terradask_host.jobs import FORMAT


@dataclass(frozen=True)
class JobOutput:
    """A task's standard output and standard error, in the order in which they came. As text it has
    no control characters.

    Parameters
    ----------
    pieces
        Each piece's stream, 1 or 2, and bytes.
    missed
        Number of bytes before the first piece that aren't kept.
    """

    pieces: tuple[tuple[int, bytes], ...] = field(repr=False)
    missed: int = 0

    def of(self, *streams: int) -> bytes:
        """Return the bytes of standard output (1), of standard error (2), or by default of both."""
        return b"".join(piece for stream, piece in self.pieces if stream in (streams or (1, 2)))

    def __str__(self) -> str:
        return printable_text(self.of())

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Return a document's output. Raises one of `UNREADABLE`."""
        if document["format"] != FORMAT:
            raise ValueError("another format")
        missed = document["missed"]
        if not isinstance(missed, int) or missed < 0:
            raise ValueError("no number of bytes")
        return cls(
            read_pieces(
                [s, base64.b64decode(text, validate=True)] for s, text in document["pieces"]
            ),
            missed,
        )


def read_pieces(pieces: Any) -> tuple[tuple[int, bytes], ...]:
    """Read and check pieces of output. Raises `ValueError`."""
    found = tuple((stream, bytes(content)) for stream, content in pieces)
    if any(stream not in (1, 2) for stream, _ in found):
        raise ValueError("an unknown stream")
    return found


def write_output(output: JobOutput, write: Callable[[int, bytes], object]) -> None:
    """Call `write` with each piece and its stream, after a note on missing bytes."""
    if output.missed:
        write(2, f"\nterradask: {output.missed} bytes are missing here\n".encode())
    for stream, content in output.pieces:
        write(stream, content)


def printable_text(content: bytes) -> str:
    """Return bytes as text for a terminal: lines and tabs stay, other control characters don't."""
    return plain_text(content.decode(errors="replace").replace("\r\n", "\n"))
