"""Objects of one S3 bucket: read, write conditionally, list, delete in batches."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

from terradask._aws.answers import raise_first, unless
from terradask._aws.session import Aws
from terradask._aws.translation import translated
from terradask._common.batches import batches
from terradask.errors import AwsError, DocumentFormat

#: Default size limit for reading: a state of many resources.
MOST_BYTES = 64 * 2**20

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"

_NO_BUCKET = "NoSuchBucket"
#: AWS (s3-missing)
_MISSING = frozenset({"NoSuchKey", "404"})
#: AWS (documented, s3-lost-race): S3 answers 412 PreconditionFailed to a write whose condition
#: fails, and 409 ConditionalRequestConflict to one that conflicts with a concurrent write.
#: https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
_LOST_RACE = frozenset({"PreconditionFailed", "ConditionalRequestConflict", "412", "409"})

#: AWS (documented): S3 DeleteObjects takes up to 1,000 keys.
#: https://docs.aws.amazon.com/AmazonS3/latest/API/API_DeleteObjects.html
_DELETE_BATCH = 1000
#: Codes of single objects that weren't deleted, which S3 deletes at the next call.
_PASSING = frozenset({"InternalError", "SlowDown", "ServiceUnavailable"})

#: AWS (documented, s3-young-bucket): S3 may answer 404 for existing objects for up to 15 minutes
#: after a bucket's versioning is first enabled.
#: https://docs.aws.amazon.com/AmazonS3/latest/userguide/manage-versioning-examples.html
_YOUNG_SECONDS = 900.0


class StoredObject(NamedTuple):
    """An object's content and ETag, as `ObjectStore.replace` and `ObjectStore.delete` take it."""

    content: bytes
    etag: str


class ObjectStore:
    """The objects of a bucket under a prefix; keys are given without it.

    Parameters
    ----------
    bucket_required
        Raise S3's error for a missing bucket. By default it counts as empty.
    options
        Options of every write, such as its encryption.
    limit_seconds, pause_seconds
        How long to retry an object that S3 lists but doesn't find, and the time between two
        attempts. AWS calls such answers intermittent.
    """

    def __init__(
        self,
        aws: Aws,
        bucket: str,
        prefix: str = "",
        *,
        bucket_required: bool = False,
        options: Mapping[str, str] | None = None,
        limit_seconds: float = 60.0,
        pause_seconds: float = 0.5,
    ) -> None:
        self._aws = aws
        self._bucket = bucket
        self._prefix = prefix
        self._missing = _MISSING if bucket_required else _MISSING | {_NO_BUCKET}
        self._options = dict(options or {})
        self._limit_seconds, self._pause_seconds = limit_seconds, pause_seconds
        #: Number of reads in progress.
        self._reading = 0
        self._answered = threading.Condition()

    def read(self, key: str, *, most_bytes: int = MOST_BYTES) -> StoredObject | None:
        """Return an object, or None if there is none.

        In a young bucket S3 may miss existing objects, so a missing one is looked up in the list.
        Raises `DocumentFormat` if it is larger than `most_bytes`, `AwsError` if S3 keeps missing
        it.

        Permissions needed: ``s3:GetObject``, ``s3:ListBucket``.
        """
        deadline = time.monotonic() + self._limit_seconds
        where = f"s3://{self._bucket}/{self._prefix}{key}"
        while True:
            with unless(*self._missing):
                with self._counted():
                    answer = self._client.get_object(**self._named(key))
                    if answer["LastModified"].timestamp() < time.time() - _YOUNG_SECONDS:
                        self._aws.settled_buckets.add(self._bucket)
                with closing(answer["Body"]) as body:
                    if answer["ContentLength"] > most_bytes:
                        raise DocumentFormat(
                            "an object in the bucket is too large for terradask's format",
                            given=f"{where}: {answer['ContentLength']} bytes",
                            allowed=f"{most_bytes} bytes",
                            advice=f"find out who wrote {where}, and remove it",
                        )
                    return StoredObject(body.read(), answer["ETag"])
            if not self._lists(key):
                return None
            if time.monotonic() > deadline:
                raise AwsError(
                    "S3 lists an object but doesn't find it",
                    given=where,
                    advice="try again in 15 minutes: the bucket's versioning may be that young",
                )
            time.sleep(self._pause_seconds)

    def _lists(self, key: str) -> bool:
        if self._is_settled():
            return False
        with unless(*self._missing):
            answer = self._client.list_objects_v2(
                Bucket=self._bucket, Prefix=self._prefix + key, MaxKeys=1
            )
            # Of several keys with this prefix, the shortest comes first.
            return any(one["Key"] == self._prefix + key for one in answer.get("Contents", ()))
        return False

    def _is_settled(self) -> bool:
        """Return whether S3 misses no objects here, which a running read may show."""
        buckets = self._aws.settled_buckets
        with self._answered:
            self._answered.wait_for(
                lambda: self._bucket in buckets or not self._reading, self._pause_seconds
            )
        return self._bucket in buckets

    @contextmanager
    def _counted(self) -> Iterator[None]:
        with self._answered:
            self._reading += 1
        try:
            yield
        finally:
            with self._answered:
                self._reading -= 1
                self._answered.notify_all()

    def write(self, key: str, content: bytes, *, content_type: str = JSON) -> None:
        """Write an object, replacing any existing one."""
        self._client.put_object(
            **self._named(key), Body=content, ContentType=content_type, **self._options
        )

    def claim(self, key: str, content: bytes) -> bool:
        """Write an object if there is none, and return whether it was written.

        S3 decides between concurrent callers: exactly one wins, if their contents differ.
        """
        return self._put_if(key, content, _LOST_RACE, IfNoneMatch="*")

    def replace(self, key: str, content: bytes, etag: str) -> bool:
        """Replace exactly the version that was read, and return whether it was written.

        S3 decides between concurrent callers: exactly one wins, if their contents differ.
        """
        # AWS (documented): S3 answers 404 to a PutObject with If-Match of a missing object.
        # https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
        return self._put_if(key, content, _LOST_RACE | {"NoSuchKey"}, IfMatch=etag)

    def delete(self, key: str, *, etag: str | None = None) -> None:
        """Delete an object, or only this version of it; a missing one is no error.

        AWS (documented): S3 deletes an object with If-Match only if its ETag is the same, and
        answers 412 otherwise. https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-deletes.html
        """
        condition, passing = (
            ({}, self._missing) if etag is None else ({"IfMatch": etag}, self._missing | _LOST_RACE)
        )
        with unless(*passing):
            self._client.delete_object(**self._named(key), **condition)

    def delete_all(self, keys: Iterable[str]) -> None:
        """Delete objects; missing ones are no error."""
        for batch in batches([self._prefix + key for key in keys], _DELETE_BATCH):
            left: Sequence[str] = batch
            for is_last in (False, False, True):
                answer = self._client.delete_objects(
                    Bucket=self._bucket,
                    Delete={"Objects": [{"Key": key} for key in left], "Quiet": True},
                )
                failed = answer.get("Errors", ())
                left = [one["Key"] for one in failed if one.get("Code") in _PASSING]
                if not left or len(left) < len(failed) or is_last:
                    break
            with translated(self._aws.region):
                raise_first(failed, "DeleteObjects")

    def names(self, under: str = "", *, after: str = "") -> list[str]:
        """List the keys that start with `under`, or only those sorted `after` a text."""
        return [key for key, _ in self.entries(under, after=after)]

    def entries(
        self, under: str = "", *, after: str = ""
    ) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """List the keys that start with `under`, each with S3's entry."""
        options = {"StartAfter": self._prefix + after} if after else {}
        for page in self.pages(under, **options):
            for entry in page.get("Contents", ()):
                yield entry["Key"].removeprefix(self._prefix), entry

    def folders(self) -> Iterator[str]:
        """List the parts of keys before the first slash, without listing every object."""
        for page in self.pages(Delimiter="/"):
            for entry in page.get("CommonPrefixes", ()):
                yield entry["Prefix"].removeprefix(self._prefix).removesuffix("/")

    def pages(self, under: str = "", **options: str) -> Iterator[Mapping[str, Any]]:
        """List objects in S3's own pages, with full keys."""
        with unless(*self._missing):
            yield from self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=self._prefix + under, **options
            )

    def _put_if(self, key: str, content: bytes, lost: frozenset[str], **condition: str) -> bool:
        with unless(*lost):
            self._client.put_object(
                **self._named(key), Body=content, ContentType=JSON, **self._options, **condition
            )
            return True
        # If an answer is lost, boto3 retries, and the first attempt fails the condition.
        found = self.read(key)
        return found is not None and found.content == content

    def _named(self, key: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": self._prefix + key}

    @property
    def _client(self) -> Any:
        return self._aws.client("s3")


def as_json(document: Mapping[str, Any]) -> bytes:
    """Return a document as the content of an object."""
    return json.dumps(document, sort_keys=True).encode()
