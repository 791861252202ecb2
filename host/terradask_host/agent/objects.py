"""Reads and writes objects of the workspace bucket, and reads the cluster's secret."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from terradask_host.agent.aws import Aws, error_code, is_aws_error
from terradask_host.agent.event_queue import EventQueue
from terradask_host.agent.object_stream import Download, Upload
from terradask_host.agent.retry import backoff
from terradask_host.config import parse_document
from terradask_host.documents import UNREADABLE
from terradask_host.errors import ConfigInvalid, RunMissing

T = TypeVar("T")

#: Largest object, and largest document, read into memory: other hosts may have written it.
MOST_BYTES, MOST_DOCUMENT_BYTES = 2**30, 2**20

#: The workspace's limits, which only the network's apply writes.
LIMITS = "host/limits.json"

#: AWS (documented, s3-missing): S3 answers NoSuchKey to GetObject of a missing object, and an
#: empty 404 to HeadObject. https://docs.aws.amazon.com/AmazonS3/latest/API/API_HeadObject.html
MISSING = frozenset({"NoSuchKey", "404"})
#: AWS (s3-lost-race)
_NOT_THAT = frozenset({"PreconditionFailed", "ConditionalRequestConflict", "412", "409"})


class ClusterObjects:
    """The objects of one cluster, and environments.

    Permissions: ``s3:GetObject`` and ``s3:PutObject`` below ``clusters/<name>/`` and
    ``environments/<name>/``, ``s3:ListBucket``, ``secretsmanager:GetSecretValue`` on the cluster's
    secret.
    """

    def __init__(self, aws: Aws, bucket: str, cluster: str) -> None:
        self._aws = aws
        self._bucket = bucket
        self._prefix = f"clusters/{cluster}/"
        #: Key prefix of the environments that this cluster builds.
        self.environments = f"environments/{cluster}/"
        self._reports = f"reports/{cluster}/"
        self._jobs = f"reports/{cluster}.jobs/"

    def read(self, name: str, *, most_bytes: int = MOST_BYTES) -> bytes | None:
        """Return an object, or None if it is missing. Raises `ConfigInvalid` if it is too large."""
        return self._read(self._prefix + name, most_bytes)

    def read_limits(self) -> dict[str, Any] | None:
        """Return the workspace's limits, or None without any. Raises as `read_document` does.

        Permission: ``s3:GetObject`` below ``host/``.
        """
        body = self._read(LIMITS, MOST_DOCUMENT_BYTES)
        return None if body is None else parse_document(body, f"s3://{self._bucket}/{LIMITS}")

    def _read(self, key: str, most_bytes: int) -> bytes | None:
        try:
            answer = self._aws.client("s3").get_object(Bucket=self._bucket, Key=key)
        except Exception as error:
            if is_aws_error(error) and error_code(error) in MISSING:
                return None
            raise
        if answer["ContentLength"] > most_bytes:
            answer["Body"].close()
            raise ConfigInvalid(
                f"s3://{self._bucket}/{key} is too large.",
                given=f"{answer['ContentLength']} bytes",
                allowed=f"{most_bytes} bytes",
                advice="Find out who wrote it; then stop and start the cluster.",
            )
        body: bytes = answer["Body"].read()
        return body

    def read_document(self, name: str) -> dict[str, Any] | None:
        """Return a JSON document of format 1, or None if it is missing.

        Raises `ConfigInvalid` when it isn't a JSON object, has another format, or is too large.
        """
        body = self.read(name, most_bytes=MOST_DOCUMENT_BYTES)
        where = f"s3://{self._bucket}/{self._prefix}{name}"
        return None if body is None else parse_document(body, where)

    def write_report(self, name: str, content: bytes) -> None:
        """Write a compressed performance report.

        Permission: ``s3:PutObject`` below ``reports/<cluster>/``.
        """
        self._write_packed(self._reports + name, content)

    def write_job(self, name: str, content: bytes) -> None:
        """Write a compressed object of a job.

        Permission: ``s3:PutObject`` below ``reports/<cluster>.jobs/``.
        """
        self._write_packed(self._jobs + name, content)

    def _write_packed(self, key: str, content: bytes) -> None:
        # Browsers must never show it as a page: code on the cluster can write it.
        self._aws.client("s3").put_object(
            Bucket=self._bucket, Key=key, Body=content, ContentType="application/gzip"
        )

    def upload(self, key: str, *, on_write: Callable[[], None]) -> Upload:
        """Return a writer of a large object; ``with`` begins it, `on_write` is called on writes."""
        return Upload(self._aws.client("s3"), self._bucket, key, on_write=on_write)

    def download(self, key: str, size: int, *, on_read: Callable[[], None]) -> Download:
        """Return a reader of a large object of `size` bytes; `on_read` is called on each read."""
        return Download(self._aws.client("s3"), self._bucket, key, size, on_read=on_read)

    def write_document(
        self, name: str, document: dict[str, Any], *, over: str | None = None
    ) -> str | None:
        """Write a JSON document, and return its ETag.

        `over` is the ETag of the object that may be overwritten; None: any object, or none. Return
        None, and write nothing, if the `over` object is gone.
        """
        condition = {} if over is None else {"IfMatch": over}
        try:
            answer = self._aws.client("s3").put_object(
                Bucket=self._bucket,
                Key=self._prefix + name,
                Body=json.dumps(document, indent=1).encode(),
                ContentType="application/json",
                **condition,
            )
        except Exception as error:
            is_gone = is_aws_error(error) and error_code(error) in MISSING | _NOT_THAT
            if over is None or not is_gone:
                raise
            return None
        etag: str = answer["ETag"]
        return etag

    def etag(self, name: str) -> str | None:
        """Return an object's ETag, or None if it is missing.

        It reads the list: in a new bucket S3 may not find an object. AWS (s3-young-bucket)
        """
        key = self._prefix + name
        answer = self._aws.client("s3").list_objects_v2(Bucket=self._bucket, Prefix=key, MaxKeys=1)
        return next((one["ETag"] for one in answer.get("Contents", ()) if one["Key"] == key), None)

    def read_secret(self, secret_id: str) -> dict[str, Any] | None:
        """Return the secret's current document, or None while it has no value."""
        try:
            answer = self._aws.client("secretsmanager").get_secret_value(SecretId=secret_id)
        except Exception as error:
            if is_aws_error(error) and error_code(error) == "ResourceNotFoundException":
                return None
            raise
        return parse_document(answer["SecretString"], f"the secret {secret_id}")


def parse_with(read: Callable[[dict[str, Any]], T], document: dict[str, Any], name: str) -> T:
    """Parse a document with its class.

    Raises `ConfigInvalid` when its format is wrong; the error never contains its values.
    """
    try:
        return read(document)
    except UNREADABLE as error:
        raise ConfigInvalid(f"{name} has an invalid format: {type(error).__name__}.") from None


def wait_for(
    read: Callable[[float], T | None],
    *,
    what: str,
    advice: str,
    deadline_seconds: float,
    events: EventQueue,
    first_pause_seconds: float = 0.2,
) -> T:
    """Poll until `read` returns a value; an error counts as no value.

    `read` gets the seconds waited so far. `what` and `advice` are for the error; a stop request
    among the `events` ends the wait.

    Right after launch the instance profile's credentials, or its rights, may be missing, and
    without the right to list a bucket a missing object gives ``AccessDenied``: so no error
    ends the wait, but the last one is reported.

    Raises `RunMissing` at the deadline, `StopRequested` on a stop request.
    """
    started = time.monotonic()
    last_error: Exception | None = None
    for pause in backoff(first_pause_seconds, factor=1.5, ceiling_seconds=5.0):
        waited = time.monotonic() - started
        try:
            answer = read(waited)
        except Exception as error:
            if not is_aws_error(error):
                raise
            last_error, answer = error, None
        if answer is not None:
            return answer
        if waited >= deadline_seconds:
            break
        events.pause(min(pause, max(deadline_seconds - waited, 0.01)))
    told = f" AWS's last answer: {error_code(last_error)}: {last_error}" if last_error else ""
    raise RunMissing(
        f"No {what} within {deadline_seconds:.0f} s.{told}", advice=advice
    ) from last_error


def overwrite(
    objects: ClusterObjects,
    name: str,
    document: dict[str, Any],
    etag: str | None,
    own_etag: Callable[[], str | None],
) -> str | None:
    """Write a document over the own one with this ETag, and return the new one's; None if the own
    one is gone. `own_etag` returns that of the own one that is there now.
    """
    written = objects.write_document(name, document, over=etag)
    if written is None and (present := own_etag()) is not None:
        # S3's answer was lost: our own object has another ETag. This one may be, too; even then,
        # later writes need a condition.
        written = objects.write_document(name, document, over=present) or present
    return written


class OwnReport:
    """A host's report object: overwritten while it exists, never created again.

    A client that stops a cluster deletes the reports; a host that is still shutting down must not
    leave one behind.
    """

    def __init__(self, objects: ClusterObjects, name: str) -> None:
        self._objects = objects
        self._name = name
        self._etag: str | None = None
        self._deleted = False

    def write(self, report: dict[str, Any]) -> None:
        """Write the report, unless it was deleted."""
        if self._deleted:
            return
        present = partial(self._objects.etag, self._name)
        self._etag = overwrite(self._objects, self._name, report, self._etag, present)
        self._deleted = self._etag is None
