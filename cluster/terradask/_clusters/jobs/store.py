"""Read the records of jobs and the output of tasks that scheduler hosts keep in the bucket."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from terradask._aws.s3 import ObjectStore
from terradask._aws.session import Aws
from terradask._common.json_text import parse_json
from terradask._observe.reports.store import unpack
from terradask.errors import DocumentFormat, JobNotFound
from terradask_host.documents import UNREADABLE, plain_text
from terradask_host.jobs import (
    FORMAT,
    JOB_ID,
    MOST_KEPT_BYTES,
    MOST_KEPT_BYTES_UNPACKED,
    JobRecord,
    output_name,
    record_name,
)
from terradask_modules.names import JOBS, REPORTS


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


Read = TypeVar("Read")

#: Most listed jobs: code on a cluster can write any number of objects.
MOST_JOBS = 1_000


class JobStore:
    """The stored jobs of one cluster, deployed or not.

    Permissions needed: ``s3:GetObject`` on ``reports/*`` and ``s3:ListBucket``.
    """

    def __init__(self, aws: Aws, bucket: str, cluster: str) -> None:
        self._store = ObjectStore(aws, bucket, f"{REPORTS}{cluster}{JOBS}")
        self._where = f"s3://{bucket}/{REPORTS}{cluster}{JOBS}"
        self._cluster = cluster

    def ids(self) -> list[str]:
        """Return the ids of the jobs that are recorded, the newest first.

        Notes
        -----
        Permission needed: ``s3:ListBucket`` on the workspace's bucket.
        """
        # By folders: a job may have 10,000 objects.
        return sorted(filter(JOB_ID.fullmatch, self._store.folders()), reverse=True)[:MOST_JOBS]

    def record(self, job: str | None = None) -> JobRecord:
        """Return a job's record, by default the last. Raises `JobNotFound`, `DocumentFormat`."""
        if job is None and (job := next(iter(self.ids()), None)) is None:
            raise JobNotFound(self._cluster, None)
        found = None
        if JOB_ID.fullmatch(job):
            found = self._read(record_name(job), lambda it: JobRecord.read(it, self._cluster))
        if found is None:
            raise JobNotFound(self._cluster, job, self.ids())
        return found

    def output(self, job: str, index: int = 0) -> JobOutput | None:
        """Return the output of a task that has ended, or whose cluster has: up to 4 MiB, less of
        each if there are many. None for a task that still runs, or has written nothing.

        Parameters
        ----------
        job
            Id of the job.
        index
            Number of the task.

        Notes
        -----
        Permissions needed: as for `job`.
        """
        return self._read(output_name(job, index), JobOutput.read)

    def _read(self, name: str, read: Callable[[Mapping[str, Any]], Read]) -> Read | None:
        kept = self._store.read(name, most_bytes=MOST_KEPT_BYTES)
        if kept is None:
            return None
        try:
            return read(parse_json(unpack(kept.content, MOST_KEPT_BYTES_UNPACKED)))
        except (*UNREADABLE, zlib.error) as error:
            raise DocumentFormat(
                "a job's record is unreadable",
                given=f"{self._where}{name}: {type(error).__name__}",
                allowed="a document written by the scheduler's host",
                advice="code on a scheduler's host can write there: find the job that did",
            ) from error
