"""Large objects as streams, with S3 by moto."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from terradask_host.agent.aws import Aws
from terradask_host.agent.object_stream import PART_BYTES
from terradask_host.agent.objects import ClusterObjects
from terradask_host.documents import sha256_of

from ..moto_account import moto_account

BUCKET = "terradask-tests"


class Unreadable(Exception):
    """Whatever ends an upload."""


def _denied(*_: Any, **__: Any) -> Any:
    raise ClientError({"Error": {"Code": "AccessDenied"}}, "AbortMultipartUpload")


@pytest.fixture
def aws() -> Iterator[Aws]:
    with moto_account():
        aws = Aws("us-east-1")
        s3 = aws.client("s3")
        s3.create_bucket(Bucket=BUCKET)
        yield aws
        s3.close()


def parts_left(aws: Aws) -> int:
    return len(aws.client("s3").list_multipart_uploads(Bucket=BUCKET).get("Uploads", []))


def failing(aws: Aws, call: str, patch: pytest.MonkeyPatch, *, at: int) -> None:
    """Have a call fail from its `at`-th time on."""
    real, times = getattr(aws.client("s3"), call), iter(range(99))

    def answer(**asked: Any) -> Any:
        if next(times) >= at:
            raise Unreadable
        return real(**asked)

    patch.setattr(aws.client("s3"), call, answer)


@pytest.mark.parametrize("what", ["the reader", "a stop", "a part", "the completion", "no one"])
def test_an_upload_that_fails_leaves_no_parts(
    aws: Aws, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def check() -> None:
        seen.append(parts_left(aws))
        if what == "a stop" and len(seen) == 3:
            raise Unreadable

    if what == "a part":
        failing(aws, "upload_part", monkeypatch, at=1)
    if what == "the completion":
        failing(aws, "complete_multipart_upload", monkeypatch, at=0)
    objects = ClusterObjects(aws, BUCKET, "one")

    raised = contextlib.nullcontext() if what == "no one" else pytest.raises(Unreadable)
    with raised, objects.upload("large", on_write=check) as upload:
        for number in range(3):
            if what == "the reader" and number == 2:
                raise Unreadable
            upload.write(bytes(PART_BYTES))
        if what != "no one":
            upload.complete()
    assert seen[-1] == 1
    assert parts_left(aws) == 0
    assert "Contents" not in aws.client("s3").list_objects_v2(Bucket=BUCKET)


def test_a_refused_removal_of_parts_hides_no_failure(
    aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aws.client("s3"), "abort_multipart_upload", _denied)
    failing(aws, "upload_part", monkeypatch, at=0)
    objects = ClusterObjects(aws, BUCKET, "one")
    with pytest.raises(Unreadable), objects.upload("large", on_write=lambda: None) as upload:
        upload.complete()
    assert parts_left(aws) == 1


def test_large_objects_arrive_as_they_were_sent(aws: Aws) -> None:
    content = os.urandom(2 * PART_BYTES + 123)
    reads: list[None] = []
    objects = ClusterObjects(aws, BUCKET, "one")
    with objects.upload("large", on_write=lambda: None) as upload:
        for start in range(0, len(content), 1_000_001):
            upload.write(content[start : start + 1_000_001])
        upload.complete()
    assert upload.size == len(content)
    with objects.download("large", upload.size, on_read=lambda: reads.append(None)) as download:
        assert download.read(5) == content[:5]
        assert download.rest_sha256() == upload.sha256 == sha256_of(content)
    assert reads
    assert parts_left(aws) == 0
