"""Read the records of jobs and the output of tasks that scheduler hosts keep in the bucket."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from terradask._aws.s3 import ObjectStore
from terradask._aws.session import Aws
from terradask._clusters.jobs.output import JobOutput
from terradask._common.json_text import parse_json
from terradask.errors import DocumentFormat, JobNotFound
from terradask_host.documents import UNREADABLE
from terradask_host.jobs import (
    JOB_ID,
    MOST_KEPT_BYTES,
    MOST_KEPT_BYTES_UNPACKED,
    JobRecord,
    output_name,
    record_name,
)
from terradask_modules.names import JOBS, REPORTS

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
        """Return what is recorded of a job, by default the last one. Raises `JobNotFound`,
        `DocumentFormat`.
        """
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
            return read(parse_json(_unpacked(kept.content)))
        except (*UNREADABLE, zlib.error) as error:
            raise DocumentFormat(
                "a job's record is unreadable",
                given=f"{self._where}{name}: {type(error).__name__}",
                allowed="a document written by the scheduler's host",
                advice="code on a scheduler's host can write there: find the job that did",
            ) from error


def _unpacked(content: bytes) -> bytes:
    # 31: the format of gzip.
    unpacking = zlib.decompressobj(31)
    found = unpacking.decompress(content, MOST_KEPT_BYTES_UNPACKED)
    if unpacking.unconsumed_tail:
        raise ValueError("it is too large")
    return found
