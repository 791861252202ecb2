"""Large objects as streams: in parts, several at a time, in order."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from terradask_host.agent.aws import is_aws_error
from terradask_host.errors import EnvironmentFailed

#: AWS (documented): S3 takes an object in up to 10,000 parts, each but the last of at least 5 MiB.
#: https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html
PART_BYTES = 8 * 2**20
#: Parts in flight; memory holds at most these, and as much again while data is passed on.
PARALLEL_PARTS = 6
_TRIES = 3


class Upload:
    """Writes one object in parts; ``with`` removes them unless it was completed.

    `on_write` is called before each write and at the end; what it raises ends the upload.

    Permissions: ``s3:PutObject`` and ``s3:AbortMultipartUpload`` on it. After a kill or without the
    second, the bucket's lifecycle removes the parts.
    """

    def __init__(self, s3: Any, bucket: str, key: str, *, on_write: Callable[[], None]) -> None:
        self._s3 = s3
        self._on_write = on_write
        self._where = {"Bucket": bucket, "Key": key}
        self._buffer = bytearray()
        self._pool = ThreadPoolExecutor(PARALLEL_PARTS, thread_name_prefix="upload")
        self._parts: list[Future[dict[str, Any]]] = []
        self._sha256 = hashlib.sha256()
        self._upload_id = ""
        self._completed = False
        self.size = 0

    def __enter__(self) -> Upload:
        made = self._s3.create_multipart_upload(**self._where)
        self._upload_id = made["UploadId"]
        return self

    def __exit__(self, *failure: object) -> None:
        # AWS (documented): parts still in flight may be stored after an abort.
        # https://docs.aws.amazon.com/AmazonS3/latest/API/API_AbortMultipartUpload.html
        self._pool.shutdown(cancel_futures=True)
        if self._completed:
            return
        try:
            self._s3.abort_multipart_upload(**self._where, UploadId=self._upload_id)
        except Exception as error:
            if not is_aws_error(error):
                raise

    @property
    def sha256(self) -> str:
        """The SHA-256 of the written bytes, in hexadecimal."""
        return self._sha256.hexdigest()

    def write(self, data: bytes) -> int:
        """Write the next bytes; wait while too many parts are in flight."""
        self._on_write()
        self._sha256.update(data)
        self.size += len(data)
        self._buffer += data
        while len(self._buffer) >= PART_BYTES:
            self._send(bytes(self._buffer[:PART_BYTES]))
            del self._buffer[:PART_BYTES]
        return len(data)

    def complete(self) -> None:
        """Send the rest, and complete the object."""
        if self._buffer or not self._parts:
            self._send(bytes(self._buffer))
            self._buffer.clear()
        parts = [part.result() for part in self._parts]
        self._on_write()
        self._s3.complete_multipart_upload(
            **self._where, UploadId=self._upload_id, MultipartUpload={"Parts": parts}
        )
        self._completed = True

    def _send(self, data: bytes) -> None:
        if len(self._parts) >= PARALLEL_PARTS:
            self._parts[-PARALLEL_PARTS].result()
        self._parts.append(self._pool.submit(self._put, len(self._parts) + 1, data))

    def _put(self, number: int, data: bytes) -> dict[str, Any]:
        answer = self._s3.upload_part(
            **self._where, UploadId=self._upload_id, PartNumber=number, Body=data
        )
        return {"PartNumber": number, "ETag": answer["ETag"]}


class Download:
    """Reads one object of a known size in parts, which are fetched ahead.

    Permission: ``s3:GetObject`` on it.
    """

    def __init__(
        self, s3: Any, bucket: str, key: str, size: int, *, on_read: Callable[[], None]
    ) -> None:
        self._s3 = s3
        self._where = {"Bucket": bucket, "Key": key}
        self._size = size
        self._on_read = on_read
        self._pool = ThreadPoolExecutor(PARALLEL_PARTS, thread_name_prefix="download")
        self._ahead: deque[Future[bytes]] = deque()
        self._asked = 0
        self._buffer = memoryview(b"")
        self._sha256 = hashlib.sha256()

    def __enter__(self) -> Download:
        return self

    def __exit__(self, *failure: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most `size`; none at the end."""
        self._on_read()
        if not self._buffer:
            while self._asked < self._size and len(self._ahead) < PARALLEL_PARTS:
                end = min(self._asked + PART_BYTES, self._size)
                self._ahead.append(self._pool.submit(self._get, self._asked, end))
                self._asked = end
            if not self._ahead:
                return b""
            part = self._ahead.popleft().result()
            self._sha256.update(part)
            self._buffer = memoryview(part)
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return bytes(taken)

    def rest_sha256(self) -> str:
        """Read the rest, and return the SHA-256 of the whole object, in hexadecimal."""
        while self.read(PART_BYTES):
            pass
        return self._sha256.hexdigest()

    def _get(self, start: int, end: int) -> bytes:
        for attempt in range(1, _TRIES + 1):
            try:
                answer = self._s3.get_object(**self._where, Range=f"bytes={start}-{end - 1}")
                found: bytes = answer["Body"].read()
            except Exception as error:
                # The client retries requests, but not reads of an answer's body.
                if attempt == _TRIES or not is_aws_error(error) or hasattr(error, "response"):
                    raise
                continue
            if len(found) == end - start:
                return found
            break
        raise EnvironmentFailed(
            "The environment's archive has a size other than its manifest's.",
            given=f"{self._where['Key']}: {len(found)} bytes from {start} on",
            allowed=f"{end - start}",
        )
